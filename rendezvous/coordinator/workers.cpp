#include "rendezvous/coordinator/workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "rendezvous/protocol/labels.h"
#include "rendezvous/text/plural.h"
#include "rendezvous/text/text_bounds.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kShippedLinesCompared = 100;

std::string seconds(int64_t ms) {
  return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
}

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 128 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; });
}

// A worker that was to end and had no job any more has done as it was told.
Worker::Life how_it_ended(const Worker& worker) {
  return worker.leaving() && worker.job.empty() ? Worker::Life::kLeft : Worker::Life::kLost;
}

}  // namespace

Workers::Workers(const Parts& parts, LeaseTimes times)
    : registry_(parts.registry),
      journal_(parts.journal),
      lives_(parts.lives),
      decisions_(parts.decisions),
      planning_(parts.planning),
      directives_(parts.directives),
      restored_(parts.restored),
      times_(times) {}

void Workers::renew_lease(Worker& worker) {
  worker.heard_ms = registry_.now();
  worker.lease_until_ms = std::max(worker.lease_until_ms, worker.heard_ms + times_.lease_ms);
  worker.seen_ms = registry_.wall_ms();
}

void Workers::begin_life(Worker& worker, const RegisterRequest& request) {
  const std::string last_job = worker.job.empty() ? worker.last_job : worker.job;
  const LossRecord losses = worker.losses;
  // A process that dies while it is drained begins anew by itself: nobody has changed their mind.
  const bool draining = worker.draining && worker.life == Worker::Life::kLost && worker.registration.only_job.empty();
  worker = Worker{};
  worker.draining = draining;
  worker.registration = request;
  worker.last_job = last_job;
  worker.status.phase = Phase::kPreparing;  // not free before it reports so
  worker.losses = losses;
  note_life(worker.losses, registry_.wall_ms());
  journal_.record({"worker_registered",
                   fmt::format("{} came from node {} ({}, {}{}{}), other workers reach it at {}", request.name, request.node,
                               request.device_model, counted(request.threads, "thread"), request.labels.empty() ? "" : "; ",
                               labels_in_words(request.labels), request.address),
                   "", request.name});
}

OrRefusal<RegisterReply> Workers::register_worker(const RegisterRequest& request, const std::string& service_id) {
  using enum Refusal::Kind;
  if (request.protocol_version != kProtocolVersion) {
    return refuse(kInvalid, "wrong_version",
                  fmt::format("{} speaks protocol version {} (holdfast {}), this service {} (holdfast {}): "
                              "install the same version on both",
                              request.name, request.protocol_version, request.version, kProtocolVersion, kHoldfastVersion));
  }
  if (!is_name(request.name) || !is_name(request.incarnation)) {
    return refuse(kInvalid, "bad_name",
                  fmt::format("a worker's name and incarnation are 1 to 128 letters, digits and ._- ; not \"{}\" "
                              "and \"{}\"",
                              request.name.substr(0, 128), request.incarnation.substr(0, 128)));
  }
  if (const std::string complaint = worker_labels_complaint(request.labels); !complaint.empty())
    return refuse(kInvalid, "bad_labels", complaint);
  if (!request.only_job.empty() && registry_.find_job(request.only_job) == nullptr) {
    return refuse(kInvalid, "no_such_job",
                  fmt::format("{} came for job \"{}\" alone, and there is none: `holdfast ls` has the jobs and their ids",
                              request.name, request.only_job.substr(0, 128)));
  }
  if (auto over = lives_.refusal_if_ended(request.name, request.incarnation)) return tl::unexpected(*std::move(over));
  planning_.forget_known_workers();
  Worker& worker = registry_.workers()[request.name];
  const std::string known = worker.registration.incarnation;
  if (known != request.incarnation) {
    if (!known.empty()) {
      const bool alive = worker.life == Worker::Life::kAlive;
      if (alive) end_life(worker, how_it_ended(worker), "a new process registered under its name");
      lives_.forbid(request.name, known, alive ? "superseded" : "stale_incarnation");
    }
    begin_life(worker, request);
  } else {
    worker.registration = request;
    if (auto back = welcome_back(worker); !back) return tl::unexpected(back.error());
  }
  renew_lease(worker);
  registry_.save(worker);
  registry_.touch(request.name);
  return RegisterReply{request.name, service_id, times_.heartbeat_ms, times_.lease_ms};
}

// A worker whose lease has ended reports again: it is taken back if its job has not gone on without it.
OrRefusal<void> Workers::welcome_back(Worker& worker) {
  if (worker.life == Worker::Life::kAlive) return {};
  const std::string& name = worker.registration.name;
  Job* job = registry_.find_job(worker.last_job);
  const bool was_in = job != nullptr && worker.lost_generation > 0;
  if (was_in && job->membership->current.number != worker.lost_generation) {
    lives_.forbid(name, worker.registration.incarnation, "stale_incarnation");
    return tl::unexpected(stale_life(name, worker.registration.incarnation, "stale_incarnation"));
  }
  worker.life = Worker::Life::kAlive;
  registry_.touch(name);
  note_life(worker.losses, registry_.wall_ms());
  journal_.record({"worker_back",
                   fmt::format("{} is heard of again after {}", name, seconds(registry_.now() - worker.heard_ms)),
                   was_in ? job->id : "", name});
  if (was_in && !is_dormant(job->membership) && !is_set_aside(job->membership) && registry_.refusal_of(*job, name) == nullptr) {
    worker.job = job->id;
    const RegisterRequest& r = worker.registration;
    decisions_.apply(*job, WorkerAssigned{{r.name, r.incarnation, r.address}, r.numerics, worker.after_generation});
  }
  registry_.save(worker);
  return {};
}

OrRefusal<StatusReply> Workers::report_status(const std::string& id, const WorkerStatus& status, const DeviceLoad& load) {
  auto found = lives_.need(id, status.incarnation);
  if (!found) return tl::unexpected(found.error());
  Worker& worker = **found;
  if (auto back = welcome_back(worker); !back) return tl::unexpected(back.error());
  renew_lease(worker);
  const bool leaves_now = status.leaving && !worker.status.leaving;
  const bool spoke = std::exchange(worker.spoke, true), was_leaving = worker.leaving(), had_none = worker.has_no_job();
  worker.status = status;
  const bool began_anew = status.phase == Phase::kActive && status.generation > worker.after_generation;
  if (worker.has_no_job() || began_anew) worker.idle_told = false;
  worker.load = load;
  worker.status.leaving |= worker.draining;
  if (!spoke || was_leaving != worker.leaving() || had_none != worker.has_no_job()) registry_.touch(id);
  restored_.notice_newer(worker);
  if (leaves_now)
    journal_.record(
        {"worker_leaving", fmt::format("{} was told to end and leaves after the step under way", id), worker.job, id});
  if (Job* job = registry_.find_job(worker.job)) {
    const WorkerReported report{id, worker.status};
    if (!take_heartbeat(job->membership, report, registry_.now())) decisions_.apply(*job, report);
  }
  return StatusReply{directives_.tag_of(worker)};
}

OrRefusal<void> Workers::begin_poll(const std::string& id, const std::string& incarnation) {
  auto found = lives_.need(id, incarnation);
  if (!found) return tl::unexpected(found.error());
  if (auto back = welcome_back(**found); !back) return back;
  renew_lease(**found);
  return {};
}

// Appends the last lines that a dead process wrote to stderr to the log of the job in which it died. Its log lines are also on
// stderr, so a line that ends with an already shipped log line is skipped.
void Workers::take_stderr_tail(const Worker& worker, const std::vector<std::string>& lines) {
  const std::string& name = worker.registration.name;
  const std::string& job = worker.job.empty() && worker.life == Worker::Life::kLost ? worker.last_job : worker.job;
  if (lines.empty() || registry_.find_job(job) == nullptr) return;
  const LogQuery of_worker{job, 0, name, ""};
  LogQuery newest = of_worker;
  newest.after = journal_.store().records().before_newest_logs(of_worker, kShippedLinesCompared);
  const LogPage shipped = journal_.store().records().logs(newest, kShippedLinesCompared);
  std::vector<LogLine> tail;
  for (const std::string& line : lines) {
    const bool known = std::ranges::any_of(shipped.rows, [&](const LogRow& row) {
      return row.dropped == 0 && !row.line.text.empty() && line.ends_with("] " + row.line.text);
    });
    if (!known) tail.push_back({registry_.wall_ms(), kLastWordsLevel, shortened(line, kLogTextBytesMax)});
  }
  if (!tail.empty()) journal_.write().add_logs(job, name, tail);
}

OrRefusal<void> Workers::report_lost(const WorkerLost& message) {
  const auto found = std::ranges::find_if(
      registry_.workers(), [&](const auto& entry) { return entry.second.registration.incarnation == message.incarnation; });
  if (found == registry_.workers().end()) return {};  // replaced already, or never registered
  Worker& worker = found->second;
  take_stderr_tail(worker, message.last_lines);
  const bool is_told_again = std::exchange(worker.end_told, true);
  if (worker.life == Worker::Life::kAlive) {
    end_life(worker, how_it_ended(worker), message.reason);
  } else if (worker.life == Worker::Life::kLost && !is_told_again) {  // others noticed first, and nobody knew why
    const std::string& name = worker.registration.name;
    journal_.record({"worker_ended", fmt::format("{}, which was lost, had ended: {}", name, message.reason), worker.lost_job,
                     name, worker.lost_generation});
  }
  lives_.forbid(worker.registration.name, message.incarnation, "stale_incarnation");
  return {};
}

void Workers::end_life(Worker& worker, Worker::Life life, const std::string& reason) {
  Job* job = registry_.find_job(worker.job);
  lives_.write_off(worker, life, reason, job != nullptr ? job->membership->current.number : 0);
  if (job != nullptr) decisions_.apply(*job, WorkerGone{worker.registration.name, reason});
}

OrRefusal<void> Workers::drain(const std::string& id) {
  Worker* found = registry_.find_worker(id);
  if (found == nullptr) {
    return refuse(Refusal::Kind::kNotKnown, "not_found", fmt::format("there is no worker {}; GET /v1/nodes lists them", id));
  }
  Worker& worker = *found;
  if (worker.life != Worker::Life::kAlive) {
    return refuse(Refusal::Kind::kWrongState, "wrong_state",
                  fmt::format("{} is {} already: only a live worker can be drained", id,
                              worker.life == Worker::Life::kLost ? "lost" : "gone"));
  }
  if (worker.draining) return {};
  worker.draining = true;
  journal_.record({"worker_draining", fmt::format("{} is drained: it leaves after the step under way", id), worker.job, id});
  registry_.save(worker);
  registry_.touch(id);
  if (Job* job = registry_.find_job(worker.job)) decisions_.apply(*job, WorkerUnwanted{id, "drained"});
  return {};
}

OrRefusal<void> Workers::take_logs(const std::string& id, const LogBatch& batch) {
  const auto worker = lives_.need(id, batch.incarnation);
  if (!worker) return tl::unexpected(worker.error());
  if (batch.number > 0 && batch.number <= (*worker)->log_batch) return {};  // sent again: the answer was lost
  if (!batch.job.empty() && registry_.find_job(batch.job) == nullptr) return tl::unexpected(no_such_job(batch.job));
  std::vector<LogLine> lines = batch.lines;
  for (LogLine& line : lines) {
    line.level = shortened(std::move(line.level), kWordBytesMax);
    line.text = shortened(std::move(line.text), kLogTextBytesMax);
  }
  journal_.write().add_logs(batch.job, id, lines);
  if (batch.number > 0) {
    (*worker)->log_batch = batch.number;
    registry_.save(**worker);
  }
  return {};
}

// --- time

void Workers::release_from_ended_jobs() {
  for (auto& [id, worker] : registry_.workers()) {
    const std::string& only = worker.registration.only_job;
    if (only.empty() || worker.draining || worker.life != Worker::Life::kAlive) continue;
    const Job* job = registry_.find_job(only);
    if (job != nullptr && !is_ended(job->membership->state)) continue;
    worker.draining = true;
    const std::string why = job == nullptr ? "which is not known here any more"
                                           : fmt::format("which has {}", job_state_name(job->membership->state));
    journal_.record(
        {"worker_released", fmt::format("{} leaves: it came for {} alone, {}", id, only, why), job == nullptr ? "" : only, id});
    registry_.save(worker);
    registry_.touch(id);
  }
}

// Most of several, whose leases are over.
bool Workers::most_are_silent() const {
  const auto& workers = registry_.workers();
  const auto is_alive = [](const auto& entry) { return entry.second.life == Worker::Life::kAlive; };
  const auto is_over = [&](const auto& entry) { return is_alive(entry) && registry_.now() >= entry.second.lease_until_ms; };
  const auto over = std::ranges::count_if(workers, is_over);
  return over > 1 && 2 * over > std::ranges::count_if(workers, is_alive);
}

void Workers::expire_leases() {
  const bool spares = times_.lease_of_most_ms > 0 && most_are_silent();
  for (auto& [id, worker] : registry_.workers()) {
    if (worker.life != Worker::Life::kAlive || registry_.now() < worker.lease_until_ms) continue;
    if (spares && registry_.now() < worker.heard_ms + times_.lease_of_most_ms) continue;
    const std::string silence = fmt::format("nothing was heard of it for {}", seconds(registry_.now() - worker.heard_ms));
    const Worker::Life how = how_it_ended(worker);
    const bool left = how == Worker::Life::kLeft;
    end_life(worker, how, left ? "it ended, as it was told to" : silence);
    if (left) lives_.forbid(id, worker.registration.incarnation, "stale_incarnation");
  }
}

void Workers::renew_all_leases() {
  for (auto& [id, worker] : registry_.workers())
    worker.lease_until_ms = std::max(worker.lease_until_ms, registry_.now() + times_.lease_ms);
}

// Removes workers from the lists that have been gone for a day.
void Workers::forget_long_gone() {
  constexpr int64_t kDayMs = 24 * 3600 * 1000, kEveryMs = 60 * 1000;
  if (registry_.now() < looked_for_gone_ms_ + kEveryMs) return;
  looked_for_gone_ms_ = registry_.now();
  std::erase_if(registry_.workers(), [&](const auto& entry) {
    const Worker& worker = entry.second;
    if (worker.life == Worker::Life::kAlive || registry_.wall_ms() < worker.seen_ms + kDayMs) return false;
    lives_.forbid(entry.first, worker.registration.incarnation, "stale_incarnation");
    journal_.write().remove_worker(entry.first);
    return true;
  });
}

}  // namespace holdfast::rendezvous
