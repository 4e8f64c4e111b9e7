#include "worker/process/fleet.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/plural.h"
#include "worker/process/supervisor.h"

namespace holdfast::worker {
namespace {

constexpr int kCpusMost = 64, kGpusMost = 64;
constexpr int kUnknown = 200;  // an exit status that is no number of GPUs

std::optional<int> number_in(std::string_view text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= least && number <= most ? std::optional(number) : std::nullopt;
}

std::optional<int> cpus_of(std::string_view devices) {
  constexpr std::string_view kPrefix = "cpu:";
  return devices.starts_with(kPrefix) ? number_in(devices.substr(kPrefix.size()), 1, kCpusMost) : std::nullopt;
}

// Empty where it is no list of different numbers.
std::vector<int> gpus_of(std::string_view devices) {
  std::vector<int> numbers;
  for (size_t begin = 0; begin <= devices.size();) {
    const size_t comma = std::min(devices.find(',', begin), devices.size());
    const auto number = number_in(devices.substr(begin, comma - begin), 0, kGpusMost - 1);
    if (!number || std::ranges::find(numbers, *number) != numbers.end()) return {};
    numbers.push_back(*number);
    begin = comma + 1;
  }
  return numbers;
}

// Never returns: tells the number by the exit status, or why there is none by words to `to`.
[[noreturn]] void count_in_child(const GpuCount& gpu_count, int to) {
  std::string why;
  try {
    const auto count = gpu_count();
    if (count) _exit(std::clamp(*count, 0, kGpusMost));
    why = count.error();
  } catch (const std::exception& error) {
    why = error.what();
  }
  const ssize_t told = write(to, why.data(), why.size());
  _exit(told < 0 ? kUnknown + 1 : kUnknown);
}

// The number, or why there is none, from a child.
tl::expected<int, std::string> counted_apart(const GpuCount& gpu_count) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return tl::unexpected("pipe: " + rendezvous::describe_errno(errno));
  const pid_t child = fork();
  if (child == 0) count_in_child(gpu_count, ends[1]);
  const int fork_error = errno;
  close(ends[1]);
  std::string why;
  char piece[256];
  for (ssize_t length = 0; (length = read(ends[0], piece, sizeof piece)) > 0;) why.append(piece, static_cast<size_t>(length));
  close(ends[0]);
  if (child < 0) return tl::unexpected("fork: " + rendezvous::describe_errno(fork_error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) <= kGpusMost) return WEXITSTATUS(status);
  return tl::unexpected(why.empty() ? "the process that counted the GPUs " + describe_end(status) : why);
}

pid_t start(const std::string& program, const std::vector<std::string>& arguments, const sigset_t& blocked) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  sigprocmask(SIG_UNBLOCK, &blocked, nullptr);
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  execv(words[0], words.data());
  _exit(127);
}

}  // namespace

bool is_list_of_devices(const std::string& devices) {
  return devices == "all" || cpus_of(devices).has_value() || !gpus_of(devices).empty();
}

tl::expected<std::vector<std::string>, std::string> device_names(const std::string& devices, const GpuCount& gpu_count) {
  if (const auto cpus = cpus_of(devices)) return std::vector<std::string>(static_cast<size_t>(*cpus), "cpu");
  const auto counted = counted_apart(gpu_count);
  if (!counted) return tl::unexpected(fmt::format("--devices {}: {}. --device cpu does without", devices, counted.error()));
  const int count = *counted;
  std::vector<std::string> names;
  if (devices == "all") {
    for (int gpu = 0; gpu < count; ++gpu) names.push_back(fmt::format("hip:{}", gpu));
    return names.empty() ? std::vector<std::string>{"cpu"} : names;
  }
  for (const int gpu : gpus_of(devices)) {
    if (gpu >= count) {
      return tl::unexpected(fmt::format("--devices {}: there is no GPU {} here, but {}; cpu:N is for the CPU", devices, gpu,
                                        count == 0 ? "none" : rendezvous::counted(count, "GPU") + ", from 0 on"));
    }
    names.push_back(fmt::format("hip:{}", gpu));
  }
  return names;
}

std::vector<std::string> arguments_of(const FleetMember& member, const std::vector<std::string>& arguments) {
  constexpr std::string_view kReplaced[] = {"--devices", "--name", "--threads"};
  std::vector<std::string> own;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view flag = std::string_view(arguments[i]).substr(0, arguments[i].find('='));
    if (std::ranges::find(kReplaced, flag) == std::end(kReplaced)) {
      own.push_back(arguments[i]);
    } else if (flag.size() == arguments[i].size()) {
      ++i;  // its value is the next word
    }
  }
  for (const std::string& word : {std::string("--device"), member.device, std::string("--name"), member.name,
                                  std::string("--threads"), std::to_string(member.threads)}) {
    own.push_back(word);
  }
  if (member.memory_gib > 0) own.insert(own.end(), {"--memory_gib", fmt::format("{:.3f}", member.memory_gib)});
  return own;
}

int run_fleet(const std::string& program, const std::vector<std::vector<std::string>>& arguments) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&set, signal);
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  std::vector<pid_t> alive;
  for (const auto& own : arguments) {
    const pid_t child = start(program, own, set);
    if (child < 0) spdlog::error("cannot start a worker: fork: {}", rendezvous::describe_errno(errno));
    if (child > 0) alive.push_back(child);
  }
  int worst = alive.size() == arguments.size() ? 0 : 1;
  while (!alive.empty()) {
    int signal = 0;
    sigwait(&set, &signal);
    if (signal == SIGTERM || signal == SIGINT) {
      for (const pid_t child : alive) kill(child, SIGTERM);
    }
    int status = 0;
    for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
      std::erase(alive, ended);
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
      if (code != 0) spdlog::error("a worker of this command ended: {}", describe_end(status));
      worst = std::max(worst, code);
    }
  }
  return worst;
}

}  // namespace holdfast::worker
