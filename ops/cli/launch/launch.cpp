#include "ops/cli/launch/launch.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ops/cli/launch/hosts.h"
#include "ops/cli/launch/slurm.h"
#include "ops/cli/launch/ssh_workers.h"
#include "ops/cli/launch/worker_token.h"
#include "rendezvous/client/url.h"
#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/plural.h"
#include "rendezvous/text/random_hex.h"

namespace holdfast::ops {
namespace {

using rendezvous::counted;

// The value, or a Failure with the error.
template <typename T>
T or_failure(tl::expected<T, std::string> result) {
  if (!result) throw Failure{kBadInput, result.error()};
  return *std::move(result);
}

std::vector<Host> hosts_of(const LaunchFlags& flags) {
  if (!flags.hosts.empty()) return or_failure(parse_hosts(flags.hosts));
  std::ifstream file(flags.host_file);
  if (!file)
    throw Failure{kBadInput,
                  fmt::format("--hostfile {}: it cannot be read: {}", flags.host_file, rendezvous::describe_errno(errno))};
  std::ostringstream text;
  text << file.rdbuf();
  return or_failure(parse_host_file(text.str()));
}

bool is_this_machine(const Seat& seat) {
  return rendezvous::is_loopback_host(
      seat.address.substr(seat.address.find('@') == std::string::npos ? 0 : seat.address.find('@') + 1));
}

[[noreturn]] void refuse_loopback(const std::string& server) {
  throw Failure{kBadInput,
                fmt::format("workers on other hosts do not reach the service at {}: give the address that they reach it at "
                            "(--server http://10.0.0.1:7070; the service listens there with --listen)",
                            server)};
}

std::vector<std::string> worker_command(const LaunchFlags& flags, const std::string& server, const std::string& worker,
                                        const std::string& job) {
  std::vector<std::string> command{flags.worker_program, "--server", server, "--name", worker, "--job", job};
  const auto more = or_failure(words_of(flags.worker_options));
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// Tells apart what services of the same address, one after the other, called by one name.
std::string digits_of(const std::string& text) {
  std::string digits;
  std::ranges::copy_if(text, std::back_inserter(digits), [](unsigned char c) { return std::isdigit(c) != 0; });
  return digits;
}

class SshLaunch : public Launch {
 public:
  SshLaunch(const Options& options, LaunchFlags flags, std::vector<Seat> seats, UnusedToken token)
      : options_(options), flags_(std::move(flags)), seats_(std::move(seats)), unused_token_(std::move(token)) {}

  void start(const Json& job) override {
    job_ = text_at(job, "id");
    const std::string born = digits_of(text_at(job, "submitted_at"));
    std::vector<SshWorkers::Place> places;
    for (const Seat& seat : seats_) {
      places.push_back(
          {seat,
           {fmt::format("{}-{}-{}", job_, born, seat.worker), worker_command(flags_, server_of(options_), seat.worker, job_)}});
    }
    workers_ = std::make_unique<SshWorkers>(SshSettings{or_failure(words_of(flags_.options)), unused_token_.secret()}, places);
    token_ = unused_token_.give();
  }
  std::vector<std::string> take_notes() override { return workers_ ? workers_->take_notes() : std::vector<std::string>{}; }
  std::string leave() override {
    if (!workers_) return "";
    workers_->disconnect();
    return fmt::format("Its {} on {} go on, too, and leave when it has ended; nobody starts them again should their host crash",
                       counted(static_cast<int64_t>(seats_.size()), "worker"), hosts_in_words());
  }
  std::string hopeless() const override { return workers_ && workers_->is_hopeless() ? "no host lets its worker work" : ""; }
  void end() override {
    if (workers_ && workers_->leave_together()) revoke(options_, token_);
  }
  bool needs_company() const override { return true; }

 private:
  std::string hosts_in_words() const {
    constexpr size_t kNamed = 4;
    std::vector<std::string> hosts;
    for (const Seat& seat : seats_) {
      if (hosts.empty() || hosts.back() != seat.address) hosts.push_back(seat.address);
    }
    const size_t all = hosts.size();
    hosts.resize(std::min(all, kNamed));
    return fmt::format("{}{}", fmt::join(hosts, ", "), all > kNamed ? fmt::format(" and {} more hosts", all - kNamed) : "");
  }

  const Options options_;
  const LaunchFlags flags_;
  const std::vector<Seat> seats_;
  UnusedToken unused_token_;
  WorkerToken token_;  // of the workers
  std::string job_;
  std::unique_ptr<SshWorkers> workers_;
};

class SlurmLaunch : public Launch {
 public:
  SlurmLaunch(SlurmRequest request, UnusedToken token) : request_(std::move(request)), unused_token_(std::move(token)) {}

  void start(const Json& job) override {
    request_.job = text_at(job, "id");
    request_.token = unused_token_.secret();
    slurm_job_ = submit_to_slurm(request_);
    unused_token_.give();  // its workers may wait in Slurm's queue longer than this program stays: it expires by itself
    notes_.push_back(fmt::format("Slurm's job {0} has the {1} for {2}: `squeue --job {0}` shows it, and it ends with {2}",
                                 slurm_job_, counted(request_.nodes * request_.workers_per_node, "worker"), request_.job));
  }
  std::vector<std::string> take_notes() override { return std::exchange(notes_, {}); }
  std::string leave() override {
    return slurm_job_.empty() ? ""
                              : fmt::format("Its workers are Slurm's job {}, which goes on, too, and ends with it", slurm_job_);
  }
  std::string hopeless() const override { return ""; }
  void end() override { cancel_in_queue(slurm_job_); }
  bool needs_company() const override { return false; }

 private:
  SlurmRequest request_;
  UnusedToken unused_token_;
  std::string slurm_job_;
  std::vector<std::string> notes_;
};

UnusedToken token_for_launch(const Options& options) {
  Api api(options);
  return {options, worker_token(options, api, "launch-" + rendezvous::random_hex(4))};
}

// Where the nodes find the programs: beside this one, unless they are told otherwise.
std::string folder_of_programs(const LaunchFlags& flags) {
  if (std::getenv("HOLDFAST_BIN") != nullptr) return "";  // NOLINT(concurrency-mt-unsafe): it goes along by itself
  std::error_code unknown;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return flags.worker_program.find('/') != std::string::npos
             ? std::filesystem::path(flags.worker_program).parent_path().string()
             : own.parent_path().string();
}

std::unique_ptr<Launch> prepare_slurm(const Options& options, const LaunchFlags& flags, int64_t workers) {
  if (!has_slurm())
    throw Failure{kBadInput, "--launch slurm: there is no sbatch on this machine: submit on a node of the cluster where it is"};
  if (rendezvous::is_loopback_host(rendezvous::host_of_url(server_of(options)))) refuse_loopback(server_of(options));
  if (workers % flags.workers_per_node != 0) {
    throw Failure{kBadInput,
                  fmt::format("--workers_per_node {}: {} cannot be dealt to nodes that have so many each: give --nodes as "
                              "a multiple of it",
                              flags.workers_per_node, counted(workers, "worker"))};
  }
  or_failure(words_of(flags.worker_options));
  SlurmRequest request{"",
                       server_of(options),
                       "",
                       workers / flags.workers_per_node,
                       flags.workers_per_node,
                       or_failure(words_of(flags.options)),
                       flags.worker_options,
                       folder_of_programs(flags)};
  return std::make_unique<SlurmLaunch>(std::move(request), token_for_launch(options));
}

std::unique_ptr<Launch> prepare_ssh(const Options& options, const LaunchFlags& flags, int64_t workers) {
  std::vector<Seat> seats = or_failure(seats_on(hosts_of(flags), workers));
  or_failure(words_of(flags.options));
  or_failure(words_of(flags.worker_options));
  if (rendezvous::is_loopback_host(rendezvous::host_of_url(server_of(options))) && !std::ranges::all_of(seats, is_this_machine))
    refuse_loopback(server_of(options));
  return std::make_unique<SshLaunch>(options, flags, std::move(seats), token_for_launch(options));
}

}  // namespace

CLI::Option* LaunchFlags::add_to(CLI::App& command) {
  constexpr const char* kGroup = "With --launch: where its workers are started";
  auto* launch =
      command
          .add_option("--launch", how,
                      "Start workers for this job alone, which leave when it has ended: slurm (a job of sbatch) or ssh "
                      "(on --hosts; stays and shows the progress, as --watch does)")
          ->check(CLI::IsMember({"slurm", "ssh"}));
  auto* list = command.add_option("--hosts", hosts, "ssh: hosts, with the number of workers behind a colon: node1,node2:4")
                   ->type_name("HOST,...");
  auto* file =
      command.add_option("--hostfile,--host_file", host_file, "ssh: a file with a host a line, such as `node1 slots=4`")
          ->type_name("FILE")
          ->excludes(list);
  auto* words = command.add_option(
      "--launch_options", options,
      "Further flags of sbatch or ssh, behind an equals sign: --launch_options=\"--partition=gpu --time=2-0\"");
  auto* of_workers = command.add_option("--worker_options", worker_options,
                                        "Further flags of holdfast-worker, likewise: --worker_options=\"--devices all\"");
  auto* program =
      command.add_option("--worker_program", worker_program, "holdfast-worker as the hosts find it")->capture_default_str();
  auto* each = command.add_option("--workers_per_node", workers_per_node, "slurm: tasks, and so workers, on each node")
                   ->capture_default_str()
                   ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  for (CLI::Option* option : {list, file, words, of_workers, program, each}) option->group(kGroup)->needs(launch);
  return launch;
}

int64_t workers_of(const LaunchFlags& flags) {
  return flags.how == "ssh" && !(flags.hosts.empty() && flags.host_file.empty()) ? slots_of(hosts_of(flags)) : 0;
}

std::unique_ptr<Launch> prepare_launch(const Options& options, const LaunchFlags& flags, int64_t workers) {
  const bool names_hosts = !flags.hosts.empty() || !flags.host_file.empty();
  if (flags.how == "ssh" && !names_hosts)
    throw Failure{kBadInput, "--launch ssh: on which hosts? Give --hosts node1,node2 or --hostfile FILE"};
  if (flags.how == "slurm" && names_hosts)
    throw Failure{kBadInput,
                  "--launch slurm: Slurm chooses the hosts; --launch_options=\"--nodelist=node1,node2\" asks it for some"};
  return flags.how == "ssh" ? prepare_ssh(options, flags, workers) : prepare_slurm(options, flags, workers);
}

}  // namespace holdfast::ops
