#include "worker/checkpoints/checkpointing.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "worker/drills/fault_points.h"
#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

using rendezvous::CheckpointRecord;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPoll{20};
constexpr milliseconds kReportPatience{10'000};  // with the steps' reports; a saved state is worth more than they are
constexpr size_t kRegisteredKept = 16, kStartsKept = 64;

nlohmann::json data_of(const Session& session) {
  rendezvous::TrainingDigest digest = session.data.digest();
  const std::string validation = std::exchange(digest.validation, "");
  nlohmann::json data{{"train", rendezvous::to_text(digest)}, {"train_path", session.data.training_paths()}};
  if (!validation.empty()) data["validation"] = validation;
  return data;
}

CheckpointRecord record_of(const storage::Manifest& manifest, const storage::WriteOutcome& outcome, const std::string& store) {
  CheckpointRecord record;
  record.state_generation = manifest.generation;
  record.step = manifest.step;
  record.store = store;
  record.state_hash = manifest.state_hash;
  record.created_at = manifest.created_at;
  record.raw_bytes = manifest.raw_bytes();
  record.stored_bytes = manifest.stored_bytes();
  record.shards = static_cast<int64_t>(manifest.shards.size());
  record.stall_s = outcome.stall_s;
  record.write_s = outcome.write_s;
  return record;
}

rendezvous::CheckpointReply reply_of(const std::string& body) {
  try {
    return nlohmann::json::parse(body).get<rendezvous::CheckpointReply>();
  } catch (const std::exception& e) {
    spdlog::warn("the service's answer to a checkpoint cannot be read: {}", e.what());
    return {};
  }
}

}  // namespace

Checkpointing::Checkpointing(CheckpointSetup setup)
    : link_(setup.link),
      outbox_(setup.outbox),
      reporter_(setup.reporter),
      job_(setup.session.job),
      store_name_(std::move(setup.store_name)),
      copy_name_(setup.session.spec.checkpoint_copy),
      spec_(to_json(setup.session.spec)),
      data_(data_of(setup.session)),
      keep_last_(setup.session.spec.keep_last),
      threads_(host_threads(*setup.session.ops, 4)),
      copied_bytes_(bytes_of_copies(setup.session)),
      keeps_room_(setup.session.is_divided() && setup.session.ops->memory_is_host()),
      store_(std::move(setup.store)),
      copier_(std::move(setup.copier)),
      client_(link_.make_client()) {
  if (!store_name_.empty() && setup.session.is_divided()) make_probe(setup.probe_patience);
  finisher_ = std::thread([this] { finish_writes(); });
  writer_ = std::make_unique<storage::CheckpointWriter>(
      *store_, storage::WriteOptions{.threads = threads_}, [this](const storage::WriteOutcome& outcome) {
        record_span(SpanKind::kCheckpoint, "checkpoint: write", std::chrono::duration<double>(outcome.write_s));
        auto whole = outcome.part ? complete(outcome) : std::optional(outcome);
        if (!whole) return;
        std::unique_lock lock(mutex_);
        last_wait_.write_ended(whole->step, whole->result.has_value(), steady_clock::now());
        if (!whole->result) {
          // Not by the tender, who may be waiting for the service: this has to be known, and tried again, all the same.
          lock.unlock();
          if (!stop_.raised()) note_failure(*whole);
          return;
        }
        whole->stall_s += take_compared_s(whole->step);
        if (failed_.first == whole->step) failed_.first = -1;
        outcomes_.push_back(std::move(*whole));
        changed_.notify_all();
      });
  reporter_.on_checkpoint_unknown([this] { register_again(); });
}

Checkpointing::~Checkpointing() {
  reporter_.on_checkpoint_unknown(nullptr);
  {
    const std::lock_guard lock(mutex_);
    stopped_ = steady_clock::now();
    stop_.raise("the job is released");
    changed_.notify_all();
  }
  client_->cancel();
  finisher_.join();
  writer_.reset();
}

void Checkpointing::enter_generation(int64_t generation, int rank, int64_t step, std::vector<std::string> members) {
  const std::lock_guard lock(mutex_);
  // Another rank 0 may have written, since then, what this one has failed to write.
  if (rank_ != 0 || rank != 0 || generation != generation_ + 1) writer_->forget_left_behind();
  generation_ = generation;
  starts_[generation] = step;
  members_[generation] = std::move(members);
  if (starts_.size() > kStartsKept) starts_.erase(starts_.begin());
  if (members_.size() > kStartsKept) members_.erase(members_.begin());
  rank_ = rank;
  generation_began_ = steady_clock::now();
  written_in_generation_ = 0;
  tidied_ = false;
  reserved_ = -1;
  // The job may have gone back: an earlier generation's checkpoint of a step does not count for this generation.
  submitted_ = tried_ = -1;
  registered_.clear();
  refused_.clear();
  elsewhere_.clear();
  answered_elsewhere_ = false;
  if (rank == 0) part_begun_ = untold_elsewhere_ = false;  // its own store is the one that counts
  if (probe_) probe_->end();
  if (rank == 0 && copied_bytes_ > 0) {
    writer_->make_room(copied_bytes_);
  } else if (!keeps_room_) {
    writer_->give_back_room();
  }
  last_wait_.generation_begins();
  if (copier_ && rank == 0) copier_->look(false);  // the rank before this one may have been killed while it copied
  changed_.notify_all();
}

// Whether the job went back behind this state after it was taken.
bool Checkpointing::is_void(const storage::Manifest& manifest) const {
  return std::any_of(starts_.upper_bound(manifest.generation), starts_.end(),
                     [&](const auto& start) { return start.second < manifest.step; });
}

bool Checkpointing::submit(const StateToWrite& state) {
  storage::Manifest manifest;
  manifest.job = job_;
  manifest.step = state.step;
  manifest.spec = spec_;
  manifest.data = data_;
  {
    const std::lock_guard lock(mutex_);
    manifest.generation = generation_;
    if (submitted_ == manifest.step) return true;
  }
  const std::unique_lock begins(begin_mutex_, std::try_to_lock);
  if (!begins) return false;
  fault_point("checkpoint_write", manifest.step, rank_);
  const int64_t step = manifest.step;
  std::optional<steady_clock::time_point> retry_at;  // of an older write
  {
    const std::lock_guard lock(mutex_);
    if (strayed_.first == step && writer_->in_progress()) return false;  // the one that strayed may be under way still
    if (strayed_.first == step) strayed_.first = -1;
    // Before submit: the outcome of this write may come before submit returns.
    retry_at = std::exchange(retry_at_, std::nullopt);
    if (tried_ != step) last_wait_.write_begins_anew(step);
    if (rank_ == 0) compared_s_[step] = state.compared_s;
  }
  {
    const Span stall(SpanKind::kCheckpoint, "checkpoint: copy of the state", step);
    manifest.state_hash = state.state_hash;
    if (state.part) manifest.tensors = state.part->tensors;
    if (!give_to_writer(state, std::move(manifest))) {
      const std::lock_guard lock(mutex_);
      if (!retry_at_) retry_at_ = retry_at;
      return false;
    }
  }
  const std::lock_guard lock(mutex_);
  submitted_ = tried_ = step;
  part_begun_ = rank_ != 0 && state.part.has_value();
  if (reserved_ == step) reserved_ = -1;
  return true;
}

bool Checkpointing::give_to_writer(const StateToWrite& state, storage::Manifest manifest) {
  if (state.part) return writer_->submit(std::move(manifest), state.part->of, state.part->pieces, state.copy);
  if (!state.lend) return writer_->submit(std::move(manifest), state.tensors, state.copy);
  const int64_t step = manifest.step;
  auto copy = writer_->submit_beside(std::move(manifest), state.tensors);
  if (copy == nullptr) return false;
  state.lend([copy = std::move(copy), step] {
    const Span stall(SpanKind::kCheckpoint, "checkpoint: wait for the copy of the state", step);
    copy->wait();
  });
  return true;
}

void Checkpointing::start(const StateToWrite& state) {
  if (submit(state)) return;
  const auto other = writer_->in_progress();
  skip(state.step, fmt::format("{} in {}",
                               other ? fmt::format("that of step {} is still being written", *other)
                                     : "files that crashed writers left are being removed",
                               store_->describe()));
}

void Checkpointing::skip(int64_t step, const std::string& why) {
  const std::string text = fmt::format("no checkpoint at step {}: {}", step, why);
  spdlog::warn("{}", text);
  outbox_.event(job_, "checkpoint_skipped", text);
}

// Also where the folder has become right since the last question, if a part was begun before that.
bool Checkpointing::was_elsewhere() {
  if (!probe_) return false;
  const bool was = probe_->was_elsewhere(), is = probe_->is_elsewhere();
  const std::lock_guard lock(mutex_);
  untold_elsewhere_ |= was && part_begun_;
  return rank_ != 0 && (is || (untold_elsewhere_ && !answered_elsewhere_));
}

void Checkpointing::have_answered(Readiness mine) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(answered_elsewhere_, mine == Readiness::kElsewhere)) part_begun_ = untold_elsewhere_ = false;
}

Readiness Checkpointing::reserve(int64_t step, AskedFor asked_for) {
  const bool is_settled = !probe_ || probe_->is_settled();  // asked first, for what is known is known before
  if (was_elsewhere()) return Readiness::kElsewhere;
  if (asked_for == AskedFor::kLast && !is_settled) return Readiness::kLooking;
  const std::unique_lock begins(begin_mutex_, std::try_to_lock);
  if (!begins || writer_->in_progress()) return Readiness::kBusy;
  const std::lock_guard lock(mutex_);
  if (submitted_ != step) reserved_ = step;  // else one of it has failed, and is to be tried again
  return Readiness::kReady;
}

void Checkpointing::forget_reservation() {
  const std::lock_guard lock(mutex_);
  reserved_ = -1;
}

RunResult<void> Checkpointing::hand_in(const StateToWrite& state, Interrupt& interrupt) {
  while (!submit(state)) {
    if (!interrupt.wait_for(kPoll)) continue;
    forget_reservation();
    return tl::unexpected(interrupted(interrupt.reason()));
  }
  return {};
}

RunResult<std::string> Checkpointing::write_now(const StateToWrite& state, Interrupt& interrupt, const PatienceNow& patience) {
  const int64_t step = state.step;
  struct Awaiting {  // a part that never comes is waited for no longer than those of others once nobody waits for this step
    Checkpointing& checkpoints;
    ~Awaiting() {
      const std::lock_guard lock(checkpoints.mutex_);
      checkpoints.awaited_ = -1;
      checkpoints.is_last_ = false;
      checkpoints.changed_.notify_all();
    }
  };
  awaited_ = step;
  is_last_ = false;
  const Awaiting awaiting{*this};
  do {
    const auto limit = patience();
    if (limit && !is_last_.exchange(true)) tell_of_last(step);
    retry_if_due();
    submit(state);  // does nothing if an earlier submission still counts
    const std::lock_guard lock(mutex_);
    if (const auto found = registered_.find(step); found != registered_.end()) return found->second;
    if (const auto found = refused_.find(step); found != refused_.end()) return tl::unexpected(found->second);
    if (limit && last_wait_.is_over(step, *limit, steady_clock::now())) return tl::unexpected(not_in_time(step));
  } while (!interrupt.wait_for(kPoll));
  return tl::unexpected(interrupted(interrupt.reason()));
}

void Checkpointing::tell_of_last(int64_t step) const {
  const auto older = writer_->in_progress();
  const std::string after = older && *older != step ? fmt::format(", after that of step {}, which is under way", *older) : "";
  spdlog::info("before this worker leaves, the checkpoint of step {} goes to {}{}; another SIGTERM ends the worker without it",
               step, store_->describe(), after);
}

// With the lock held.
double Checkpointing::take_compared_s(int64_t step) {
  const auto found = compared_s_.find(step);
  const double seconds = found == compared_s_.end() ? 0 : found->second;
  compared_s_.erase(compared_s_.begin(), compared_s_.upper_bound(step));
  return seconds;
}

void Checkpointing::finish_writes() {
  name_thread("checkpoint tender");
  std::unique_lock lock(mutex_);
  while (!stop_.raised()) {
    if (!outcomes_.empty()) {
      storage::WriteOutcome outcome = std::move(outcomes_.front());
      outcomes_.pop_front();
      lock.unlock();
      finish_write(std::move(outcome));
      lock.lock();
    } else if (!retry_at_) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, *retry_at_);
      lock.unlock();
      retry_if_due();
      lock.lock();
    }
  }
}

void Checkpointing::remember(const storage::Manifest& manifest, bool is_part) {
  const std::lock_guard lock(mutex_);
  const bool is_lost = is_part && strayed_.first == manifest.step;
  if (manifest.generation == generation_ && !is_lost) registered_[manifest.step] = manifest.state_hash;
  if (registered_.size() > kRegisteredKept) registered_.erase(registered_.begin());
}

void Checkpointing::finish_write(storage::WriteOutcome outcome) {
  const storage::Manifest& manifest = *outcome.result;
  {
    const std::lock_guard lock(mutex_);
    retry_delay_ = milliseconds(0);
    last_wait_.write_ended(manifest.step, true, steady_clock::now());
  }
  CheckpointRecord record = record_of(manifest, outcome, store_name_);
  record.copy = copy_name_;
  // A job that is resumed from this checkpoint does not report the steps before it any more, so they are reported first.
  if (!reporter_.drain(manifest.step, stop_, kReportPatience) && !stop_.raised())
    spdlog::warn("the service does not know every step before the checkpoint of step {}", manifest.step);
  const auto reply = register_checkpoint(record, manifest);
  if (!reply) return;
  spdlog::info("checkpoint of step {}: {:.1f} MB in {}, stall {:.3f} s, write {:.2f} s", manifest.step,
               static_cast<double>(record.stored_bytes) / 1e6, store_->describe(), outcome.stall_s, outcome.write_s);
  reporter_.hashed(manifest.step, manifest.state_hash);
  remember(manifest);
  {
    const std::lock_guard lock(mutex_);
    newest_registered_ = outcome;
  }
  remove_older(record, manifest, reply->needed_steps);
}

void Checkpointing::register_again() {
  const std::lock_guard lock(mutex_);
  if (!newest_registered_ || !outcomes_.empty()) return;
  outcomes_.push_back(*newest_registered_);
  changed_.notify_all();
}

std::optional<rendezvous::CheckpointReply> Checkpointing::register_checkpoint(CheckpointRecord& record,
                                                                              const storage::Manifest& manifest) {
  const Span span(SpanKind::kCheckpoint, "checkpoint: register", manifest.step);
  record.worker = link_.options().worker;
  record.incarnation = link_.options().incarnation;
  std::string refusal;
  while (!stop_.raised()) {
    {
      const std::lock_guard lock(mutex_);
      record.generation = generation_;
      if (is_void(manifest)) {
        spdlog::warn("the checkpoint of step {} is not registered: the job went back to before it", record.step);
        return std::nullopt;
      }
    }
    const Delivery delivery = link_.deliver(*client_, checkpoints_path(), rendezvous::json_text(record), stop_);
    if (delivery.how == Delivery::How::kDelivered) return reply_of(delivery.reply.body);
    if (delivery.how == Delivery::How::kStopped) return std::nullopt;
    if (delivery.problem.code == "stale_state") {  // the service knows of generations that this worker was not in
      spdlog::warn("the checkpoint of step {} is not registered: {}", record.step, delivery.problem.detail);
      return std::nullopt;
    }
    if (std::exchange(refusal, delivery.problem.detail) != delivery.problem.detail) {
      spdlog::warn("the checkpoint of step {} is not registered yet: {} {}", record.step, delivery.problem.title, refusal);
    }
    // Between two generations this worker belongs to neither: the next generation accepts the registration.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(1), [&] { return generation_ != record.generation || stop_.raised(); });
  }
  return std::nullopt;
}

}  // namespace holdfast::worker
