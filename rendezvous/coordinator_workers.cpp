// Workers' lives: registration, status, leases, drain; and which job each belongs to.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "rendezvous/coordinator.h"
#include "rendezvous/protocol/labels.h"
#include "rendezvous/text_bounds.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kShippedLinesCompared = 100;
constexpr Millis kStoodStillMs = 200;  // ticks come every 50 ms, unless a commit or the whole process hung

std::string seconds(int64_t ms) {
  return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
}

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 128 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; });
}

Problem stale_life(const std::string& worker, const std::string& incarnation, const std::string& code) {
  const char* why = code == "superseded" ? "another process registered under this name"
                                         : "the service took it for lost and went on without it";
  return problem(409, code, fmt::format("incarnation {} of {} is over: {}", incarnation, worker, why));
}

}  // namespace

void Coordinator::heard(Worker& worker, Millis lease_ms) {
  worker.heard_ms = now();
  worker.lease_until_ms = std::max(worker.lease_until_ms, worker.heard_ms + lease_ms);
  worker.seen_ms = wall_ms();
}

void Coordinator::forbid(const std::string& worker, const std::string& incarnation, const std::string& code) {
  ended_incarnations_[incarnation] = code;
  touch(worker);
  write().end_incarnation(worker, incarnation, code);
}

std::optional<Problem> Coordinator::ended(const std::string& worker, const std::string& incarnation) const {
  const auto found = ended_incarnations_.find(incarnation);
  if (found == ended_incarnations_.end()) return std::nullopt;
  return stale_life(worker, incarnation, found->second);
}

const RefusalRow* Coordinator::refusal_of(const Job& job, const std::string& id) const {
  const auto refusal = job.refusals.find(id);
  const auto worker = workers_.find(id);
  const bool in_force = refusal != job.refusals.end() && worker != workers_.end() &&
                        worker->second.registration.incarnation == refusal->second.incarnation;
  return in_force ? &refusal->second : nullptr;
}

Outcome<Worker*> Coordinator::need_worker(const std::string& id, const std::string& incarnation) {
  if (auto over = ended(id, incarnation)) return tl::unexpected(*std::move(over));
  const auto found = workers_.find(id);
  if (found == workers_.end())
    return tl::unexpected(problem(404, "not_found", fmt::format("there is no worker {}: register it first", id)));
  if (found->second.registration.incarnation != incarnation) {
    return tl::unexpected(
        problem(404, "not_found", fmt::format("incarnation {} of {} is not known: register it first", incarnation, id)));
  }
  return &found->second;
}

void Coordinator::begin_life(Worker& worker, const RegisterRequest& request) {
  const std::string last_job = worker.job.empty() ? worker.last_job : worker.job;
  const LossRecord losses = worker.losses;
  worker = Worker{};
  worker.registration = request;
  worker.last_job = last_job;
  worker.status.phase = Phase::kPreparing;  // not free before it says so
  worker.losses = losses;
  note_life(worker.losses, wall_ms());
  event("", "worker_registered",
        fmt::format("{} came from node {} ({}, {} thread{}{}{}), other workers reach it at {}", request.name, request.node,
                    request.device_model, request.threads, request.threads == 1 ? "" : "s", request.labels.empty() ? "" : "; ",
                    labels_in_words(request.labels), request.address),
        request.name);
}

Outcome<RegisterReply> Coordinator::register_worker(const RegisterRequest& request, const std::string& service_id) {
  if (request.protocol_version != kProtocolVersion) {
    return tl::unexpected(
        problem(400, "wrong_version",
                fmt::format("{} speaks protocol version {} (holdfast {}), this service {} (holdfast {}): "
                            "install the same version on both",
                            request.name, request.protocol_version, request.version, kProtocolVersion, kHoldfastVersion)));
  }
  if (!is_name(request.name) || !is_name(request.incarnation)) {
    return tl::unexpected(
        problem(400, "bad_name",
                fmt::format("a worker's name and incarnation are 1 to 128 letters, digits and ._- ; not \"{}\" "
                            "and \"{}\"",
                            request.name.substr(0, 128), request.incarnation.substr(0, 128))));
  }
  if (const std::string complaint = worker_labels_complaint(request.labels); !complaint.empty())
    return tl::unexpected(problem(400, "bad_labels", complaint));
  if (auto over = ended(request.name, request.incarnation)) return tl::unexpected(*std::move(over));
  unfit_.clear();
  unlike_.clear();
  Worker& worker = workers_[request.name];
  const std::string known = worker.registration.incarnation;
  if (known != request.incarnation) {
    if (!known.empty()) {
      const bool alive = worker.life == Worker::Life::kAlive;
      if (alive) end_life(worker, Worker::Life::kLost, "a new process registered under its name");
      forbid(request.name, known, alive ? "superseded" : "stale_incarnation");
    }
    begin_life(worker, request);
  } else {
    worker.registration = request;
    if (auto back = welcome_back(worker); !back) return tl::unexpected(back.error());
  }
  heard(worker, times_.lease_ms);
  save(worker);
  touch(request.name);
  return RegisterReply{request.name, service_id, times_.heartbeat_ms, times_.lease_ms};
}

// One whose lease ended and that speaks again: taken back while its job has not gone on without it.
Outcome<void> Coordinator::welcome_back(Worker& worker) {
  if (worker.life == Worker::Life::kAlive) return {};
  const std::string& name = worker.registration.name;
  Job* job = job_of(worker.last_job);
  const bool was_in = job != nullptr && worker.lost_generation > 0;
  if (was_in && job->membership.current.number != worker.lost_generation) {
    forbid(name, worker.registration.incarnation, "stale_incarnation");
    return tl::unexpected(stale_life(name, worker.registration.incarnation, "stale_incarnation"));
  }
  worker.life = Worker::Life::kAlive;
  touch(name);
  note_life(worker.losses, wall_ms());
  event(was_in ? job->id : "", "worker_back",
        fmt::format("{} is heard of again after {}", name, seconds(now() - worker.heard_ms)), name);
  if (was_in && !is_dormant(job->membership) && !is_set_aside(job->membership) && refusal_of(*job, name) == nullptr) {
    worker.job = job->id;
    const RegisterRequest& r = worker.registration;
    apply(*job, WorkerAssigned{{r.name, r.incarnation, r.address}, r.numerics, worker.after_generation});
  }
  save(worker);
  return {};
}

Outcome<StatusReply> Coordinator::report_status(const std::string& id, const WorkerStatus& status) {
  auto found = need_worker(id, status.incarnation);
  if (!found) return tl::unexpected(found.error());
  Worker& worker = **found;
  if (auto back = welcome_back(worker); !back) return tl::unexpected(back.error());
  heard(worker, times_.lease_ms);
  const bool leaves_now = status.leaving && !worker.status.leaving;
  const bool spoke = std::exchange(worker.spoke, true), was_leaving = worker.leaving(), had_none = worker.has_no_job();
  worker.status = status;
  worker.status.leaving |= worker.draining;
  if (!spoke || was_leaving != worker.leaving() || had_none != worker.has_no_job()) touch(id);
  notice_newer(worker);
  if (leaves_now)
    event(worker.job, "worker_leaving", fmt::format("{} was told to end and leaves after the step under way", id), id);
  if (Job* job = job_of(worker.job)) {
    const WorkerReported report{id, worker.status};
    if (!take_heartbeat(job->membership, report, now())) apply(*job, report);
  }
  return StatusReply{tag_of(worker)};
}

Outcome<void> Coordinator::polled(const std::string& id, const std::string& incarnation) {
  auto found = need_worker(id, incarnation);
  if (!found) return tl::unexpected(found.error());
  if (auto back = welcome_back(**found); !back) return back;
  heard(**found, times_.lease_ms);
  return {};
}

// The last lines on the stderr of a process that died go to the log of the job that it died in, but for those that are there:
// its own log lines, which end with what was shipped.
void Coordinator::take_last_words(const Worker& worker, const std::vector<std::string>& lines) {
  const std::string& name = worker.registration.name;
  const std::string& job = worker.job.empty() && worker.life == Worker::Life::kLost ? worker.last_job : worker.job;
  if (lines.empty() || find_job(job) == nullptr) return;
  const LogQuery of_worker{job, 0, name, ""};
  LogQuery newest = of_worker;
  newest.after = store_.before_newest_logs(of_worker, kShippedLinesCompared);
  const LogPage shipped = store_.logs(newest, kShippedLinesCompared);
  std::vector<LogLine> words;
  for (const std::string& line : lines) {
    const bool known = std::ranges::any_of(shipped.rows, [&](const LogRow& row) {
      return row.dropped == 0 && !row.line.text.empty() && line.ends_with("] " + row.line.text);
    });
    if (!known) words.push_back({wall_ms(), kLastWordsLevel, shortened(line, kLogTextBytesMax)});
  }
  if (!words.empty()) write().add_logs(job, name, words);
}

Outcome<void> Coordinator::worker_lost(const WorkerLost& message) {
  const auto found = std::ranges::find_if(
      workers_, [&](const auto& entry) { return entry.second.registration.incarnation == message.incarnation; });
  if (found == workers_.end()) return {};  // replaced already, or never registered: nothing to lose
  Worker& worker = found->second;
  take_last_words(worker, message.last_lines);
  if (worker.life == Worker::Life::kAlive)
    end_life(worker, worker.leaving() && worker.job.empty() ? Worker::Life::kLeft : Worker::Life::kLost, message.reason);
  forbid(worker.registration.name, message.incarnation, "stale_incarnation");
  return {};
}

// What is known of the worker itself; its job is told by the caller.
void Coordinator::write_off(Worker& worker, Worker::Life life, const std::string& reason, int64_t generation) {
  const std::string name = worker.registration.name, job = worker.job;
  worker.life = life;
  worker.lost_generation = generation;
  if (!job.empty()) worker.last_job = job;
  worker.job.clear();
  const std::string& node = worker.registration.node;
  if (life == Worker::Life::kLeft) {
    event(job, "worker_left", fmt::format("{} (node {}) left: {}", name, node, reason), name, generation);
  } else {
    const std::string where = job.empty()      ? "idle"
                              : generation > 0 ? fmt::format("in generation {} of {}", generation, job)
                                               : "in " + job;
    event(job, "worker_lost", fmt::format("{} (node {}, {}) was lost: {}", name, node, where, reason), name, generation);
  }
  if (life == Worker::Life::kLost && note_loss(worker.losses, wall_ms()))
    event(job, "worker_held_back", held_back_in_words(name, worker.losses, wall_ms()), name);
  save(worker);
  touch(name);
}

void Coordinator::end_life(Worker& worker, Worker::Life life, const std::string& reason) {
  Job* job = job_of(worker.job);
  write_off(worker, life, reason, job != nullptr ? job->membership.current.number : 0);
  if (job != nullptr) apply(*job, WorkerGone{worker.registration.name, reason});
}

void Coordinator::outlive(const Outlived& silent, int64_t last_generation) {
  const auto found = workers_.find(silent.worker);
  if (found == workers_.end() || found->second.registration.incarnation != silent.incarnation) return;
  write_off(found->second, Worker::Life::kLost, silent.reason + " and nothing was heard of it since", last_generation);
  forbid(silent.worker, silent.incarnation, "stale_incarnation");
}

Outcome<void> Coordinator::drain(const std::string& id) {
  const auto found = workers_.find(id);
  if (found == workers_.end())
    return tl::unexpected(problem(404, "not_found", fmt::format("there is no worker {}; GET /v1/nodes lists them", id)));
  Worker& worker = found->second;
  if (worker.life != Worker::Life::kAlive) {
    return tl::unexpected(problem(409, "wrong_state",
                                  fmt::format("{} is {} already: only a live worker can be drained", id,
                                              worker.life == Worker::Life::kLost ? "lost" : "gone")));
  }
  if (worker.draining) return {};
  worker.draining = true;
  event(worker.job, "worker_draining", fmt::format("{} is drained: it leaves after the step under way", id), id);
  save(worker);
  touch(id);
  if (Job* job = job_of(worker.job)) apply(*job, WorkerUnwanted{id, "drained"});
  return {};
}

Outcome<void> Coordinator::logs(const std::string& id, const LogBatch& batch) {
  const auto worker = need_worker(id, batch.incarnation);
  if (!worker) return tl::unexpected(worker.error());
  if (batch.number > 0 && batch.number <= (*worker)->log_batch) return {};  // the answer to it was lost
  if (!batch.job.empty() && find_job(batch.job) == nullptr) return tl::unexpected(no_such_job(batch.job));
  std::vector<LogLine> lines = batch.lines;
  for (LogLine& line : lines) {
    line.level = shortened(std::move(line.level), kWordBytesMax);
    line.text = shortened(std::move(line.text), kLogTextBytesMax);
  }
  write().add_logs(batch.job, id, lines);
  if (batch.number > 0) {
    (*worker)->log_batch = batch.number;
    save(**worker);
  }
  return {};
}

// --- time

void Coordinator::expire_leases() {
  for (auto& [id, worker] : workers_) {
    if (worker.life != Worker::Life::kAlive || now() < worker.lease_until_ms) continue;
    const std::string silence = fmt::format("nothing was heard of it for {}", seconds(now() - worker.heard_ms));
    const bool left = worker.job.empty() && worker.leaving();
    end_life(worker, left ? Worker::Life::kLeft : Worker::Life::kLost, left ? "it ended, as it was told to" : silence);
    if (left) forbid(id, worker.registration.incarnation, "stale_incarnation");
  }
}

// Lists of workers show who was there lately, not who ever was.
void Coordinator::forget_old_workers() {
  constexpr int64_t kDayMs = 24 * 3600 * 1000, kEveryMs = 60 * 1000;
  if (now() < forgot_ms_ + kEveryMs) return;
  forgot_ms_ = now();
  std::erase_if(workers_, [&](const auto& entry) {
    const Worker& worker = entry.second;
    if (worker.life == Worker::Life::kAlive || wall_ms() < worker.seen_ms + kDayMs) return false;
    forbid(entry.first, worker.registration.incarnation, "stale_incarnation");
    write().remove_worker(entry.first);
    return true;
  });
}

// What there is too much of goes a little at a time.
void Coordinator::forget_old_records() {
  constexpr int64_t kEveryMs = 60 * 1000;
  if (!old_records_left_ && now() < forgot_records_ms_ + kEveryMs) return;
  forgot_records_ms_ = now();
  old_records_left_ = write().forget_old(wall_ms());
}

void Coordinator::tick() {
  // A service that was itself stopped for a while has not listened: nobody is judged by that time.
  if (last_tick_ms_ >= 0 && now() - last_tick_ms_ > times_.lease_ms / 2) {
    for (auto& [id, worker] : workers_) worker.lease_until_ms = std::max(worker.lease_until_ms, now() + times_.lease_ms);
  }
  if (last_tick_ms_ < 0 || now() - last_tick_ms_ > kStoodStillMs) listening_since_ms_ = now();
  last_tick_ms_ = now();
  unsettled_ |= now() >= next_plan_ms_;
  expire_leases();
  forget_old_workers();
  forget_old_records();
  std::erase_if(live_, [](const auto& entry) { return is_ended(entry.second->membership.state); });
  for (const auto& [number, job] : live_) {
    const JobMembership& m = job->membership;
    if (is_ended(m.state)) continue;
    if (m.state == JobState::kRunning) end_overlong(*job);
    const bool dormant =
        is_ended(m.state) || m.state == JobState::kPaused || (m.participants.empty() && m.state != JobState::kRunning);
    if (!dormant) apply(*job, Tick{.judges = true, .listening_since_ms = listening_since_ms_});
  }
}

}  // namespace holdfast::rendezvous
