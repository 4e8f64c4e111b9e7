#include "ops/cli/plan/speed.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/ops.h"
#include "model/microbatch_time.h"
#include "ops/cli/terminal/quantities.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

constexpr int kJobsLookedAt = 20;      // the newest ones
constexpr int kPointsLookedAt = 1000;  // the first of a job, in one page
// The first steps of a job pack weights, fault in memory and choose scales: they are slower than the rest.
constexpr int64_t kWarmUpSteps = 3;
constexpr const char* kModelFields[] = {"n_layer", "n_embd", "n_head", "vocab_size", "block_size", "dtype", "recompute"};

// Microbatches that rank 0 computed in a step of a generation; 0 when the ledger does not say it.
int64_t share_of_rank_0(const Json& ledger, int64_t generation, int64_t step) {
  if (!has(ledger, "rows")) return 0;
  int64_t sum = 0;
  for (const Json& row : ledger["rows"]) {
    const bool covers = integer_at(row, "first_step") <= step && step <= integer_at(row, "last_step");
    if (!covers || integer_at(row, "rank", -1) != 0 || integer_at(row, "generation") != generation) continue;
    sum += integer_at(row, "last_microbatch") - integer_at(row, "first_microbatch");
  }
  return sum;
}

bool same_model(const Json& wanted, const Json& spec) {
  return std::ranges::all_of(kModelFields, [&](const char* field) { return has(spec, field) && spec[field] == wanted[field]; });
}

}  // namespace

DeviceSpeed measured_here(const rendezvous::JobSpec& spec, int threads, double seconds) {
  const auto dtype = spec.dtype == "float32"   ? kernels::DType::kFloat32
                     : spec.dtype == "float16" ? kernels::DType::kFloat16
                                               : kernels::DType::kBFloat16;
  const auto ops = kernels::make_cpu_ops(dtype, threads);
  const model::Gpt2Config config{spec.n_layer, spec.n_embd, spec.n_head, spec.vocab_size, spec.block_size};
  const auto time = model::time_microbatches(*ops, config, spec.batch_size, *model::recompute_of(spec.recompute), seconds);
  return {time.seconds,
          fmt::format("measured on this machine's processors, {}, {}; the optimizer is left out",
                      rendezvous::counted(threads, "thread"), rendezvous::counted(time.passes, "microbatch", "microbatches"))};
}

double microbatch_seconds(const Json& points, const Json& ledger) {
  std::vector<double> all;
  const int64_t first = points.empty() ? 0 : integer_at(points.front(), "step");
  for (const Json& point : points) {
    const int64_t step = integer_at(point, "step");
    const auto step_s = number_at(point, "step_s"), communication_s = number_at(point, "communication_s");
    if (step < first + kWarmUpSteps || !step_s || !communication_s || *step_s <= *communication_s) continue;
    const int64_t share = share_of_rank_0(ledger, integer_at(point, "generation"), step);
    if (share > 0) all.push_back((*step_s - *communication_s) / static_cast<double>(share));
  }
  return all.empty() ? 0 : median(std::move(all));
}

tl::expected<DeviceSpeed, std::string> speed_of_jobs(const Options& options, const rendezvous::JobSpec& spec) {
  const Json wanted = rendezvous::to_json(spec);
  try {
    Api api(options);
    const Json page = api.get(fmt::format("/v1/jobs?limit={}", kJobsLookedAt));  // newest first
    for (const Json& listed : page.at("jobs")) {
      const std::string path = "/v1/jobs/" + percent_encoded(text_at(listed, "id"));
      if (integer_at(listed, "step") == 0) continue;
      const Json job = api.get(path);
      if (!has(job, "spec") || !same_model(wanted, job["spec"])) continue;
      const Json points = api.get(fmt::format("{}/metrics?limit={}", path, kPointsLookedAt)).at("metrics");
      const double seconds = microbatch_seconds(points, api.get(path + "/ledger"));
      const int64_t batch_size = integer_at(job["spec"], "batch_size");
      if (seconds <= 0 || batch_size <= 0) continue;
      const double scale = static_cast<double>(spec.batch_size) / static_cast<double>(batch_size);
      return DeviceSpeed{seconds * scale, fmt::format("measured by job {}, rank 0, microbatches of {} sequences",
                                                      text_at(listed, "id"), batch_size)};
    }
  } catch (const Failure& failure) {
    return tl::unexpected(failure.message);
  }
  return tl::unexpected(
      fmt::format("none of the newest {} jobs of {} has trained this model with this block_size, dtype and recompute",
                  kJobsLookedAt, server_of(options)));
}

}  // namespace holdfast::ops
