#include "ops/cli/doctor/doctor.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "ops/cli/netcheck/exchange.h"
#include "rendezvous/client/http_client.h"
#include "storage/places/place.h"

namespace holdfast::ops {
namespace {

const char* word_of(Verdict verdict) {
  return verdict == Verdict::kOk ? "ok" : verdict == Verdict::kWarn ? "warn" : "FAIL";
}

// Prints each as it comes: some take seconds.
class Examination {
 public:
  explicit Examination(bool json) : json_(json) {}

  void add(const std::vector<Check>& checks) {
    for (const Check& check : checks) {
      all_.push_back(check);
      if (json_) continue;
      fmt::print("{:<5} {:<16} {}\n", word_of(check.verdict), check.name, check.seen);
      if (!check.remedy.empty()) fmt::print("{:<5} {:<16} {}\n", "", "", check.remedy);
      std::fflush(stdout);
    }
  }

  void finish() const {
    const auto count = [&](Verdict verdict) { return std::ranges::count(all_, verdict, &Check::verdict); };
    const auto failed = count(Verdict::kFail);
    if (json_) {
      Json checks = Json::array();
      for (const Check& check : all_) {
        checks.push_back({{"check", check.name},
                          {"verdict", word_of(check.verdict)},
                          {"seen", check.seen},
                          {"remedy", check.remedy.empty() ? Json(nullptr) : Json(check.remedy)}});
      }
      print_json({{"ok", failed == 0}, {"checks", checks}});
    } else {
      fmt::print("\n{} checks: {} ok, {} warn, {} FAIL\n", all_.size(), count(Verdict::kOk), count(Verdict::kWarn), failed);
    }
    if (failed > 0) throw Failure{kJobFailed, ""};
  }

 private:
  bool json_;
  std::vector<Check> all_;
};

// The data directory that is told, or the default one where the service is on this machine and it is there.
std::string data_directory(const DoctorArguments& arguments, const ServiceSeen& seen) {
  if (!arguments.data_dir.empty() || !seen.here) return arguments.data_dir;
  const std::string usual = rendezvous::default_data_directory();
  std::error_code ignored;
  return std::filesystem::is_directory(usual, ignored) ? usual : "";
}

void examine(const Options& options, const DoctorArguments& arguments) {
  if (!(arguments.seconds >= kNetcheckSecondsMin && arguments.seconds <= kNetcheckSecondsMax)) {
    throw Failure{kBadInput, fmt::format("--seconds: {} is out of range: {} to {}", arguments.seconds, kNetcheckSecondsMin,
                                         kNetcheckSecondsMax)};
  }
  Examination examination(options.json);
  ServiceSeen seen;
  examination.add(check_service(options, seen));
  examination.add(check_services(options));
  if (!arguments.store.empty()) examination.add(check_postgresql(arguments.store));
  examination.add(check_network(arguments, seen));
  if (const auto folder = data_directory(arguments, seen); !folder.empty())
    examination.add({check_folder(FolderUse::kData, folder)});
  if (const std::string& store = arguments.checkpoint_store; !store.empty())
    examination.add({storage::is_s3(store) ? check_bucket(store) : check_folder(FolderUse::kCheckpoints, store)});
  examination.add(check_machine(arguments, seen));
  examination.add(check_slurm());
  examination.finish();
}

}  // namespace

void add_doctor_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command =
      add_command(app, options, "doctor", "Check the service, this machine and the way to the others; exit code 1 if one fails",
                  "holdfast doctor --server http://node1:7070 --train_data_path /data/train.bin --peer node2:7071");
  command->add_option("--interface", arguments->interface, "Network interface, as holdfast-worker would be given it")
      ->type_name("NAME");
  command
      ->add_option("--data_dir", arguments->data_dir,
                   "The service's folder, on its machine [the usual one where the service is here]")
      ->type_name("DIR");
  command->add_option("--store", arguments->store, "The PostgreSQL database of several services, as `holdfast serve` has it")
      ->type_name("URL");
  command
      ->add_option("--checkpoint_store", arguments->checkpoint_store,
                   "A job's checkpoint_store: a folder, or s3://bucket/prefix")
      ->envname("HOLDFAST_CHECKPOINT_STORE")
      ->type_name("PLACE");
  command->add_option("--train_data_path", arguments->train_data_path, "A training file, or a mixture as a job has it")
      ->type_name("FILE");
  command
      ->add_option("--peer", arguments->peer, "Measure the link to a node where `holdfast netcheck --listen 0.0.0.0:7071` runs")
      ->type_name("HOST:PORT");
  command->add_option("--seconds", arguments->seconds, "For each of three measurements of --peer")->capture_default_str();
  command->callback([&options, arguments] { examine(options, *arguments); });
}

}  // namespace holdfast::ops
