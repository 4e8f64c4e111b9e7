// Fills a service's database with the records of many runs, so that what it is asked for can be timed.
//
//   bench_records_fill --database DATA_DIR/holdfast.sqlite --jobs 10000 --points 1000000
//
// Half of the points are those of the last job, a long run; the others have the same number each. Every job has a generation,
// two checkpoints, ten events and twenty log lines; the last twenty are queued, all others have succeeded. Prints one JSON
// line: what was written, and how many bytes the database has. Refuses a database that is there.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "rendezvous/store/sqlite/store.h"

namespace {

using namespace holdfast::rendezvous;  // NOLINT(google-build-using-namespace): rows, every line
using Json = nlohmann::json;

constexpr int64_t kQueued = 20, kEvents = 10, kLines = 20, kBatch = 500;
constexpr int64_t kBegan = 1'790'000'000'000;

struct Settings {
  std::string database;
  int64_t jobs = 10'000, points = 1'000'000;
};

void add_job(JobStore& store, const Settings& settings, int64_t number, int64_t steps) {
  const bool queued = number > settings.jobs - kQueued - 1 && number != settings.jobs;
  JobSpec spec;
  spec.name = fmt::format("run-{}", number);
  spec.train_data_path = "/data/train.bin";
  spec.total_steps = steps;
  spec.warmup_steps = 1;
  JobRow row;
  row.id = fmt::format("j{}", number);
  row.number = number;
  row.name = spec.name;
  row.spec = to_json(spec).dump();
  row.state = queued ? "queued" : "succeeded";
  row.reason = queued ? "waiting for workers" : fmt::format("all {} steps are done", steps);
  row.stage = "forming";
  row.cause = "start";
  row.intent = "run";
  row.resume = "[]";
  row.submitted_ms = kBegan + number * 60'000;
  row.finished_ms = queued ? 0 : row.submitted_ms + 3'600'000;
  row.committed_step = queued ? 0 : steps;
  row.loss = 2.5;
  store.save_job(row);
  Generation generation;
  generation.number = 1;
  generation.members = {{"a", "a1", "10.0.0.1:4000"}, {"b", "b1", "10.0.0.2:4000"}};
  store.add_generation({row.id, generation, row.submitted_ms});
  store.extend_ledger(row.id, generation, 8, 1, steps);
  for (const int64_t step : {steps / 2, steps}) {
    CheckpointRecord record;
    record.step = step;
    record.generation = 1;
    record.state_hash = "0123456789abcdef0123456789abcdef";
    record.created_at = "2026-11-22T20:00:00Z";
    if (step > 0) store.save_checkpoint({row.id, record, false});
  }
  for (int64_t i = 0; i < kEvents; ++i)
    store.add_event(
        {0, row.submitted_ms + i, row.id, "a", 1, "checkpoint_committed", "a message as long as they are, more or less", ""});
  store.add_logs(row.id, "a",
                 std::vector<LogLine>(kLines, {row.submitted_ms, "info", "a line as long as lines of a log are here"}));
}

void add_points(JobStore& store, const std::string& job, int64_t steps) {
  std::vector<StepRow> rows;
  for (int64_t step = 1; step <= steps; ++step) {
    StepRow& row = rows.emplace_back();
    row.job = job;
    row.time_ms = kBegan + step * 100;
    row.generation = 1;
    row.world_size = 2;
    row.point.step = step;
    row.point.loss = 2 + 8 / std::sqrt(static_cast<double>(step));
    row.point.gradient_norm = 1.25;
    row.point.learning_rate = 3e-4;
    row.point.tokens = 16'384;
    row.point.step_s = 0.1;
    row.point.communication_s = 0.02;
    row.point.tokens_digest = fmt::format("{:016x}", 0x9E3779B97F4A7C15ULL * static_cast<uint64_t>(step));
    if (static_cast<int64_t>(rows.size()) == kBatch || step == steps) store.add_steps(job, std::exchange(rows, {}));
  }
}

Json fill(const Settings& settings) {
  const auto store = open_sqlite_store(settings.database);
  const int64_t long_run = settings.points / 2, each = (settings.points - long_run) / std::max<int64_t>(settings.jobs - 1, 1);
  for (int64_t number = 1; number <= settings.jobs; ++number) {
    if (number % 100 == 1) store->begin();
    const int64_t steps = number == settings.jobs ? long_run : each;
    add_job(*store, settings, number, steps);
    add_points(*store, fmt::format("j{}", number), steps);
    if (number % 100 == 0 || number == settings.jobs) store->commit();
  }
  return {{"jobs", settings.jobs},
          {"points", long_run + each * (settings.jobs - 1)},
          {"long_run", long_run},
          {"each", each},
          {"database_bytes", std::filesystem::file_size(settings.database)}};
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Fills a database with the records of many runs."};
  app.add_option("--database", settings.database, "The file to make")->required();
  app.add_option("--jobs", settings.jobs, "Jobs")->check(CLI::Range(2, 1'000'000))->capture_default_str();
  app.add_option("--points", settings.points, "Steps of all of them")->check(CLI::Range(2, 100'000'000))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    if (std::filesystem::exists(settings.database)) throw std::runtime_error(settings.database + " is there already");
    std::printf("%s\n", fill(settings).dump().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_records_fill: %s\n", error.what());
    return 1;
  }
}
