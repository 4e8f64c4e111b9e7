#include "rendezvous/queries/known_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "rendezvous/plan/measured.h"
#include "rendezvous/plan/settings.h"
#include "rendezvous/scheduler/requirements.h"
#include "rendezvous/text/plural.h"
#include "rendezvous/text/time_text.h"

namespace holdfast::rendezvous {
namespace {

constexpr int kJobsLookedAt = 20;        // of this model, the newest ones
constexpr int64_t kStepsLookedAt = 300;  // the first of a job that are still there
constexpr double kGib = 1 << 30;

bool same_work(const JobSpec& a, const JobSpec& b) {
  const auto key = [](const JobSpec& spec) {
    return std::tie(spec.n_layer, spec.n_embd, spec.n_head, spec.vocab_size, spec.block_size, spec.dtype, spec.recompute,
                    spec.tied_head);
  };
  return key(a) == key(b) && (a.dropout > 0) == (b.dropout > 0);
}

bool is_there(const Worker& worker, const Labels& requirements) {
  return worker.life == Worker::Life::kAlive && !worker.leaving() && satisfies(worker.registration, requirements);
}

// The devices that a job could have now, by their numerics; empty: none is there.
std::set<std::string> devices_there(const Coordinator& state, const Labels& requirements) {
  std::set<std::string> devices;
  for (const auto& [id, worker] : state.workers()) {
    if (is_there(worker, requirements)) devices.insert(worker.registration.numerics);
  }
  return devices;
}

std::vector<StepTime> steps_of(Coordinator& state, const Job& job) {
  Records& records = state.journal().store().records();
  const std::vector<StepRow> rows = records.steps(job.id, 0, kStepsLookedAt);
  if (rows.empty()) return {};
  const auto ledger = records.ledger(job.id, {records.ledger_range(job.id).first, rows.back().point.step});
  std::vector<StepTime> steps;
  for (const StepRow& row : rows) {
    StepTime time{row.point.step_s, row.point.communication_s, 0, 0};
    for (const LedgerRow& dealt : ledger) {
      const bool covers = dealt.first_step <= row.point.step && row.point.step <= dealt.last_step;
      if (!covers || dealt.generation != row.generation) continue;
      time.nodes = std::max<int64_t>(time.nodes, dealt.rank + 1);
      if (dealt.rank == 0) time.microbatches += dealt.last_microbatch - dealt.first_microbatch;
    }
    steps.push_back(time);
  }
  return steps;
}

std::string source_of(const Job& job, const std::string& what) {
  return fmt::format("measured by job {} on {}, {}", job.id, time_text(job.submitted_ms).substr(0, 10), what);
}

}  // namespace

KnownSpeed known_speed(Coordinator& state, const JobSpec& spec, double round_trip_s) {
  const std::set<std::string> devices = devices_there(state, spec.requirements);
  KnownSpeed known;
  int looked_at = 0;
  for (auto it = state.jobs().rbegin(); it != state.jobs().rend() && looked_at < kJobsLookedAt; ++it) {  // newest first
    const Job& job = *it->second;
    const JobMembership& m = job.membership;
    const bool on_these = devices.empty() || m.numerics.empty() || devices.contains(m.numerics);
    if (m.committed_step == 0 || !on_these || !same_work(m.spec, spec)) continue;
    PlanInputs inputs = inputs_of(m.spec, nlohmann::json::object());
    if (known.microbatch_s.value > 0 && overlaps(inputs)) continue;  // it tells nothing of the link
    ++looked_at;
    const std::vector<StepTime> steps = steps_of(state, job);
    if (const double seconds = microbatch_seconds(steps); known.microbatch_s.value <= 0 && seconds > 0) {
      const double scale = static_cast<double>(spec.batch_size) / static_cast<double>(m.spec.batch_size);
      known.microbatch_s = {seconds * scale,
                            source_of(job, fmt::format("rank 0, microbatches of {}, with its share of the optimizer",
                                                       counted(m.spec.batch_size, "sequence")))};
    }
    inputs.round_trip_s = round_trip_s;
    if (const double rate = link_rate(steps, inputs); known.link_bytes_per_s.value <= 0 && rate > 0)
      known.link_bytes_per_s = {rate, source_of(job, "the bytes of a sync over the time rank 0 waited for it")};
    if (known.microbatch_s.value > 0 && known.link_bytes_per_s.value > 0) break;
  }
  return known;
}

Known smallest_memory(const Coordinator& state, const Labels& requirements) {
  const auto on_processor = [](const RegisterRequest& worker) {
    const std::string kind = device_kind(worker);
    return kind != "hip" && kind != "cuda";
  };
  std::map<std::string, int64_t> workers_of_node;  // on its processors
  for (const auto& [id, worker] : state.workers()) {
    if (is_there(worker, {}) && on_processor(worker.registration)) ++workers_of_node[worker.registration.node];
  }
  Known smallest;
  for (const auto& [id, worker] : state.workers()) {
    const RegisterRequest& r = worker.registration;
    if (!is_there(worker, requirements) || r.memory_bytes <= 0) continue;
    const bool shared = on_processor(r);
    const auto bytes = static_cast<double>(r.memory_bytes) / (shared ? 2.0 * static_cast<double>(workers_of_node[r.node]) : 1);
    if (smallest.value > 0 && bytes >= smallest.value) continue;
    smallest = {bytes,
                shared
                    ? fmt::format("half of the {:.1f} GiB of node {}, for its {}", static_cast<double>(r.memory_bytes) / kGib,
                                  r.node, counted(workers_of_node[r.node], "worker"))
                    : fmt::format("the device of {}", id),
                shared};
  }
  return smallest;
}

}  // namespace holdfast::rendezvous
