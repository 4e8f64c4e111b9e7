// Loads one service with many workers that are simulated in this process, and says how long it makes them wait.
//
//   bench_service_load --server http://127.0.0.1:7070 --token "$(cat DATA_DIR/admin.token)" --workers 1000 --seconds 20
//
// Every worker registers, holds a long-poll open and reports its status each second. First nothing happens for --seconds; then,
// --rounds times, a job for all workers is submitted and stopped, which pushes a directive to each of them. Prints one JSON
// line: heartbeat_* while nothing happens, busy_heartbeat_* while directives are pushed, push_* from before the submission is
// sent to the arrival of "prepare", release_* from before the stop is sent to that of "idle"; milliseconds. Ends by itself: 1
// when a worker or a directive did not come in time. Refuses a service on another machine. Start it on a service of its own: it
// leaves its workers behind as lost.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bench/service_load/event_loop.h"
#include "bench/service_load/fleet.h"
#include "bench/service_load/http_connection.h"
#include "rendezvous/process/open_files.h"

namespace {

using namespace holdfast::bench;  // NOLINT(google-build-using-namespace): this is its program
using holdfast::rendezvous::raise_open_files;
using Json = nlohmann::json;
using std::chrono::seconds;

constexpr seconds kStartPatience{60}, kPushPatience{20}, kSettle{2};
constexpr int64_t kFilesPerWorker = 2, kFilesBeside = 50;

struct Settings {
  std::string server = "http://127.0.0.1:7070", token;
  int workers = 1000, seconds = 20, rounds = 3;
};

int complain(const std::string& detail) {
  std::fprintf(stderr, "bench_service_load: %s\n", detail.c_str());
  return 1;
}

std::optional<Place> find_place(const Settings& settings) {
  constexpr std::string_view kScheme = "http://";
  if (!settings.server.starts_with(kScheme)) return std::nullopt;
  Place place;
  place.host = settings.server.substr(kScheme.size());
  while (place.host.ends_with('/')) place.host.pop_back();
  place.token = settings.token;
  const size_t colon = place.host.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::string name = place.host.substr(0, colon), port_text = place.host.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || end != port_text.data() + port_text.size()) return std::nullopt;
  place.address.sin_family = AF_INET;
  place.address.sin_port = htons(port);
  const std::string ip = name == "localhost" ? "127.0.0.1" : name;
  if (!ip.starts_with("127.") || inet_pton(AF_INET, ip.c_str(), &place.address.sin_addr) != 1) return std::nullopt;
  return place;
}

class Measurement {
 public:
  Measurement(const Settings& settings, const Place& place)
      : settings_(settings), control_(loop_, place), fleet_(loop_, place, settings.workers) {}

  // "", or what did not come.
  std::string run() {
    Tally& tally = fleet_.tally();
    fleet_.start();
    if (!loop_.run(Clock::now() + kStartPatience, [&] { return tally.polling == settings_.workers; }))
      return fmt::format("{} of {} workers were registered in time; {}", tally.polling, settings_.workers, tally.first_error);
    loop_.run(Clock::now() + kSettle);
    tally.heartbeats = &quiet_;
    loop_.run(Clock::now() + seconds(settings_.seconds));
    tally.heartbeats = &busy_;
    for (int round = 0; round < settings_.rounds; ++round) {
      if (std::string failure = push_and_release(); !failure.empty()) return failure;
    }
    tally.heartbeats = nullptr;
    return "";
  }

  Json result() {
    const Tally& tally = fleet_.tally();
    Json json = {{"bench", "service_load"},         {"workers", settings_.workers}, {"seconds", settings_.seconds},
                 {"rounds", settings_.rounds},      {"missed", tally.missed},       {"errors", tally.errors},
                 {"first_error", tally.first_error}};
    const auto put = [&json](const std::string& name, const Samples& samples) {
      json[name + "s"] = samples.count();
      json[name + "_p50_ms"] = samples.percentile(50);
      json[name + "_p99_ms"] = samples.percentile(99);
      json[name + "_max_ms"] = samples.percentile(100);
    };
    put("heartbeat", quiet_);
    put("busy_heartbeat", busy_);
    put("push", pushed_);
    put("release", released_);
    return json;
  }

 private:
  Json job_for_all() const {
    return {{"name", "service-load"},           {"train_data_path", "tokens.bin"},
            {"nodes", settings_.workers},       {"min_nodes", settings_.workers},
            {"max_nodes", settings_.workers},   {"batch_size", 1},
            {"gradient_accumulation_steps", 1}, {"total_steps", 100}};
  }

  std::string push_and_release() {
    std::string job;
    if (std::string failure = push("POST /v1/jobs", "/v1/jobs", job_for_all().dump(), "prepare", pushed_, job);
        !failure.empty())
      return failure;
    return push("the stop", "/v1/jobs/" + job + "/stop", "{}", "idle", released_, job);
  }

  // Asks for it, and waits until every worker was told; then for a while, so that each round finds the service at rest.
  std::string push(const std::string& what, const std::string& path, const std::string& body, const std::string& kind,
                   Samples& into, std::string& job) {
    Tally& tally = fleet_.tally();
    tally.arrived = 0;
    tally.pushed = &into;
    tally.pushed_kind = kind;
    tally.pushed_at = Clock::now();
    bool answered = false;
    std::string refusal;
    control_.send("POST", path, body, [&](const HttpAnswer& answer) {
      answered = true;
      if (answer.status == 201 || answer.status == 202)
        job = Json::parse(answer.body).at("id").get<std::string>();
      else
        refusal = fmt::format("{} was refused: {} {}", what, answer.status, answer.body);
    });
    const bool all = loop_.run(Clock::now() + kPushPatience,
                               [&] { return !refusal.empty() || (answered && tally.arrived >= settings_.workers); });
    tally.pushed = nullptr;
    if (!refusal.empty()) return refusal;
    if (!all) {
      return fmt::format("{} of {} workers were told \"{}\" in {} s after {}; {}", tally.arrived, settings_.workers, kind,
                         kPushPatience.count(), what, tally.first_error);
    }
    loop_.run(Clock::now() + kSettle);
    return "";
  }

  const Settings& settings_;
  EventLoop loop_;
  HttpConnection control_;
  Fleet fleet_;
  Samples quiet_, busy_, pushed_, released_;
};

int measure(const Settings& settings) {
  const auto place = find_place(settings);
  if (!place) {
    return complain("--server \"" + settings.server +
                    "\" must be http://127.0.0.1:PORT: the load is for a service on this machine, not for a network");
  }
  const int64_t needed = settings.workers * kFilesPerWorker + kFilesBeside;
  if (const auto files = raise_open_files(); files.limit < needed)
    return complain(fmt::format("{} workers need {} open files and the hard limit is {} (ulimit -Hn)", settings.workers, needed,
                                files.limit));
  Measurement measurement(settings, *place);
  const std::string failure = measurement.run();
  if (!failure.empty()) return complain(failure);
  std::printf("%s\n", measurement.result().dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Loads one service with simulated workers."};
  app.add_option("--server", settings.server, "The service, on this machine")->capture_default_str();
  app.add_option("--token", settings.token, "Its administrator's token")->required();
  app.add_option("--workers", settings.workers, "Simulated")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--seconds", settings.seconds, "With heartbeats alone")->check(CLI::Range(1, 600))->capture_default_str();
  app.add_option("--rounds", settings.rounds, "Jobs submitted and stopped")->check(CLI::Range(0, 100))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return measure(settings);
  } catch (const std::exception& error) {
    return complain(error.what());
  }
}
