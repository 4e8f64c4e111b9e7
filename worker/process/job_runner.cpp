#include "worker/process/job_runner.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <stop_token>
#include <utility>

#include "rendezvous/client/service_store.h"
#include "rendezvous/text/plural.h"
#include "storage/open_store.h"
#include "worker/drills/fault_points.h"
#include "worker/drills/fault_store.h"
#include "worker/link/fault_reports.h"
#include "worker/profile/recording_store.h"
#include "worker/session/first_data.h"
#include "worker/state/agreement.h"
#include "worker/state/divided/agreement.h"
#include "worker/state/divided/division.h"

namespace holdfast::worker {
namespace {

using rendezvous::Directive;
using std::chrono::milliseconds;

// With sync_every above 1, a rank with one replica less than another waits while the other goes sync_every local steps.
milliseconds collective_timeout(const rendezvous::JobSpec& spec, const std::optional<milliseconds>& fallback) {
  const bool unset = spec.collective_timeout_s == rendezvous::JobSpec{}.collective_timeout_s;
  const milliseconds of_spec(static_cast<int64_t>(spec.collective_timeout_s * 1000));
  return (fallback && unset ? *fallback : of_spec) * spec.sync_every;
}

// The digest of all that members must have alike: the training tokens, the validation tokens where there is an evaluation, and
// the initial weights where they are not the seed's.
std::string data_digest(const Session& session) {
  rendezvous::TrainingDigest digest = session.data.digest();
  if (session.spec.eval_every == 0) digest.validation.clear();
  digest.weights = session.init_digest;
  return rendezvous::to_text(digest);
}

std::vector<std::string> names(const Directive& join) {
  std::vector<std::string> workers;
  for (const rendezvous::Member& member : join.members) workers.push_back(member.worker);
  return workers;
}

}  // namespace

JobRunner::JobRunner(RunnerOptions options, const RunnerConnections& connections, OnInput on_input)
    : options_(std::move(options)),
      link_(connections.link),
      outbox_(connections.outbox),
      transport_(connections.transport),
      data_sets_(connections.data_sets),
      on_input_(std::move(on_input)),
      open_store_([this](const std::string& store, const std::string& job, const std::string& copy) {
        return open_store(store, job, storage::MissingFolder::kFail, interrupt_.flag(), copy);
      }),
      reporter_(connections.link),
      profiler_([this](RecordedProfile recorded) { send_profile(std::move(recorded)); }) {
  if (!options_.tensorboard_dir.empty()) {
    tensorboard_ =
        std::make_unique<TensorBoard>(options_.tensorboard_dir, [this](const std::string& job, const std::string& what) {
          spdlog::warn("{}", what);
          outbox_.event(job, "tensorboard_failed", what);
        });
  }
  thread_ = std::thread([this] { work(); });
}

JobRunner::~JobRunner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    interrupt_.raise("the worker ends");
    changed_.notify_all();
  }
  thread_.join();
  drop_session();
}

void JobRunner::start(const StartPrepare& task) {
  begin([this, task] { return prepare(task); });
}
void JobRunner::start(const StartRun& task) {
  begin([this, task] { return run(task.join); });
}
void JobRunner::start(const StartRelease&) {
  begin([this] { return release(); });
}

void JobRunner::begin(std::function<Input()> task) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  // Reset here and not on the train thread: an interrupt that comes from now on is meant for this task.
  interrupt_.reset();
  requests_.yield = requests_.checkpoint = requests_.leaving = requests_.released = false;
  profiler_.want(std::nullopt);
  task_ = std::move(task);
  changed_.notify_all();
}

void JobRunner::ask(const AskYield& request) {
  requests_.leaving = request.leaving;
  requests_.released = request.released;
  requests_.checkpoint = request.checkpoint;
  requests_.yield = true;
}

void JobRunner::work() {
  name_thread("train");
  while (true) {
    std::function<Input()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || task_; });
      if (stopping_) return;
      task = std::exchange(task_, nullptr);
    }
    try {
      on_input_(task());
    } catch (const std::exception& error) {
      // After an exception, such as no memory left, this process cannot be trusted to go on. Its supervisor starts another.
      link_.fail(ExitCode::kFailed, fmt::format("the train thread failed: {}", error.what()));
    }
  }
}

Input JobRunner::prepare(const StartPrepare& task) {
  drop_session();
  reporter_.forget();  // the job before
  if (task.spec.serves()) return prepare_replica(task);
  auto session = prepare_session(task.job, task.spec, places(), options_.make_ops, options_.memory);
  if (interrupt_.raised()) return PrepareEnded{PrepareEnded::How::kInterrupted, interrupt_.reason(), {}, 0};
  if (!session) {
    spdlog::error("job {} is refused: {}", task.job, session.error());
    return PrepareEnded{PrepareEnded::How::kRefused, session.error(), {}, 0};
  }
  auto store = open_store(task.spec.checkpoint_store, task.job, storage::MissingFolder::kMake, nullptr);
  if (!store) {
    const auto reason = "checkpoint_store " + task.spec.checkpoint_store + " cannot be used here: " + store.error().message;
    spdlog::error("job {} is refused: {}", task.job, reason);
    return PrepareEnded{PrepareEnded::How::kRefused, reason, {}, 0};
  }
  session_ = std::move(*session);
  session_->patience = Patience(collective_timeout(session_->spec, options_.collective_timeout), link_.lease());
  session_->model->set_interrupt(interrupt_.flag());
  auto copier = make_copier(task);
  if (copier) copiers_.push_back(copier);
  checkpoints_ = std::make_unique<Checkpointing>(CheckpointSetup{.link = link_,
                                                                 .outbox = outbox_,
                                                                 .reporter = reporter_,
                                                                 .session = *session_,
                                                                 .store = with_spans(with_fault_points(std::move(*store))),
                                                                 .store_name = task.spec.checkpoint_store,
                                                                 .copier = std::move(copier)});
  spdlog::info("prepared for job {}: {:.1f} million parameters, {} tokens of {}", task.job,
               static_cast<double>(session_->model->table().total) / 1e6, session_->data.training_tokens(),
               session_->data.training_paths());
  return PrepareEnded{PrepareEnded::How::kPrepared, {}, data_digest(*session_), session_->data.training_tokens()};
}

storage::Result<std::unique_ptr<storage::ObjectStore>> JobRunner::open_store(const std::string& store, const std::string& job,
                                                                             storage::MissingFolder missing,
                                                                             const std::atomic<bool>* stop,
                                                                             const std::string& copy) const {
  const LinkOptions& link = link_.options();
  const rendezvous::WorkerIdentity identity{link.worker, link.incarnation};
  return storage::open_store(store, job,
                             {.missing = missing,
                              .service = rendezvous::service_stores(link.server, link.token, identity, stop),
                              .roots = options_.checkpoint_roots,
                              .stop = stop,
                              .copy = copy,
                              .tell = [this, job](const std::string& text) {
                                spdlog::warn("{}", text);
                                outbox_.event(job, "checkpoint_mended", text);
                              }});
}

std::shared_ptr<Copier> JobRunner::make_copier(const StartPrepare& task) const {
  const rendezvous::JobSpec& spec = task.spec;
  if (spec.checkpoint_copy.empty()) return nullptr;
  constexpr double kMib = 1 << 20;
  const auto opener = [this, job = task.job](const std::string& place, storage::MissingFolder missing) {
    return [this, job, place, missing](const std::atomic<bool>* stop) { return open_store(place, job, missing, stop); };
  };
  return std::make_shared<Copier>(CopySetup{.link = link_,
                                            .outbox = outbox_,
                                            .job = task.job,
                                            .place = spec.checkpoint_copy,
                                            .open_first = opener(spec.checkpoint_store, storage::MissingFolder::kFail),
                                            .open_second = opener(spec.checkpoint_copy, storage::MissingFolder::kMake),
                                            .keep_last = spec.keep_last,
                                            .bytes_per_s = spec.copy_mib_per_s * kMib});
}

Input JobRunner::release() {
  drop_session();
  reporter_.forget();
  return Released{};
}

void JobRunner::drop_session() {
  checkpoints_.reset();
  for (const auto& copier : copiers_) copier->finish();
  std::erase_if(copiers_, [](const auto& copier) { return copier->is_done(); });
  session_.reset();
  replica_.reset();
}

Input JobRunner::run(const Directive& join) {
  if (replica_) return serve(join);
  if (join.spec) session_->take(*join.spec);
  job_ = join.job;
  const RunStop stop = take_part(join);
  profiler_.end(stop.reason);
  reporter_.end();
  report_stop(join, stop);
  if (stop.state_is_wrong) session_->distrust();
  if (stop.fault_kind == "timeout") session_->patience.ran_out();
  return RunEnded{session_->held_step(), stop.reason, stop.superseded_by};
}

RunStop JobRunner::take_part(const Directive& join) {
  spdlog::info("joining generation {} of job {} as rank {} of {}", join.generation, join.job, join.rank, join.members.size());
  std::vector<std::string> incarnations;
  for (const rendezvous::Member& member : join.members) incarnations.push_back(member.incarnation);
  checkpoints_->enter_generation(join.generation, join.rank, join.source.step, std::move(incarnations));
  checkpoints_->look_at_store(join.members.front().worker, transport_.node());
  auto ring = form_ring(join);
  if (!ring) return ring.error();
  const Interrupt::Scope abort(interrupt_, [&ring](const std::string& reason) { (*ring)->abort(reason); });
  const auto on_quiet = [this, &join](const CollectiveError& error) {
    report_fault(join, fault("silent", error.detail, error.suspect_rank));
  };
  const Patience& patience = session_->patience;
  (*ring)->set_patience(patience.ceiling(), patience.question(), on_quiet);
  if (auto shared = share_memory(join, **ring); !shared) return shared.error();
  if (auto agreed = agree(join, **ring); !agreed) return agreed.error();
  reporter_.begin(join.job, join.generation, join.rank == 0, division_of(*session_, join.members.size()));
  TensorBoard* const tensorboard = join.rank == 0 ? tensorboard_.get() : nullptr;
  if (tensorboard != nullptr)
    tensorboard->begin(join.job, session_->state->step, static_cast<int64_t>(join.members.size()),
                       reporter_.history().points());
  on_input_(Joined{session_->state->step});
  expect_data(*session_, session_->state->step);
  TrainLoop loop{
      .session = *session_,
      .ring = **ring,
      .requests = requests_,
      .interrupt = interrupt_,
      .reporter = reporter_,
      .checkpoints = *checkpoints_,
      .outbox = outbox_,
      .profiler = profiler_,
      .on_commit =
          [this](int64_t step) {
            on_input_(StepCommitted{step});
            if (step % kDataExpectedEvery == 0) expect_data(*session_, step);
          },
      .on_lost_peer = [this, &join](const CollectiveError& error) { report_fault(join, ring_stop(error)); },
      .on_quiet = on_quiet,
      .workers = names(join),
      .node = transport_.node(),
      .tensorboard = tensorboard,
  };
  return loop.run();
}

RunResult<std::unique_ptr<Communicator>> JobRunner::form_ring(const Directive& join) {
  RingOptions ring;
  ring.job = join.job;
  ring.generation = join.generation;
  ring.rank = join.rank;
  ring.secret = join.secret;
  ring.encrypted = session_->spec.ring_tls == "on";
  ring.timeout = collective_timeout(session_->spec, options_.collective_timeout);
  // A rank whose own neighbours are there waits for the other ranks in its first collective: the ranks that still form the
  // ring must complain before it does.
  ring.form_timeout = std::min(ring.form_timeout, ring.timeout * 3 / 4);
  for (const rendezvous::Member& member : join.members) ring.addresses.push_back(member.address);
  std::stop_source stop;
  ring.stop = stop.get_token();
  const Interrupt::Scope cancel(interrupt_, [&stop](const std::string&) { stop.request_stop(); });
  fault_point("rendezvous", session_->held_step(), join.rank);
  auto formed = Communicator::form(transport_, ring);
  fault_point("join", session_->held_step(), join.rank);
  if (!formed) return tl::unexpected(ring_stop(formed.error()));
  if (ring.encrypted && join.members.size() > 1) spdlog::info("the ring is encrypted: {}", (*formed)->encryption());
  return std::move(*formed);
}

RunResult<void> JobRunner::share_memory(const Directive& join, Communicator& ring) {
  OwnDevices devices{.sums = session_->ops->make_sums(),
                     .on_connected = [this, job = join.job](const std::string& library, const std::string& why_not) {
                       tell_of_devices(job, library, why_not);
                     }};
  if (auto shared = ring.share_memory(options_.shared_memory ? transport_.node() : "", std::move(devices)); !shared)
    return tl::unexpected(ring_stop(shared.error()));
  if (ring.nodes() > 0)
    spdlog::info("the workers of each node add up in shared memory; {} in all", rendezvous::counted(ring.nodes(), "node"));
  if (ring.rank() == 0 && !ring.memory_refused().empty()) {
    outbox_.event(
        join.job, "memory_not_shared",
        "workers on one node do not share memory, and add up over TCP as those of several nodes do: " + ring.memory_refused());
  }
  return {};
}

void JobRunner::tell_of_devices(const std::string& job, const std::string& library, const std::string& why_not) {
  if (why_not.empty()) return spdlog::info("the GPUs of this node add up among themselves, by {}", library);
  outbox_.event(job, "devices_not_connected",
                "the GPUs of this node do not add up among themselves, but through the host's memory: " + why_not +
                    ". The bits are the same; it takes longer");
}

RunResult<void> JobRunner::agree(const Directive& join, Communicator& ring) {
  const WhenAway when_away{.job = join.job,
                           .tell =
                               [this, &join](const std::string& text) {
                                 spdlog::warn("{}", text);
                                 outbox_.event(join.job, "checkpoint_away",
                                               fmt::format("{}: {}", link_.options().worker, text));
                               },
                           .leaves = [this] { return requests_.leaving.load(); }};
  const auto wanted = acquire_state(join.source, ring, *session_, open_store_, interrupt_, when_away);
  if (!wanted) return tl::unexpected(wanted.error());
  StepHistory history = reporter_.valid_history(join.began);
  // Steps above the state that the generation starts from were voided.
  history.truncate(*wanted);
  const Restoring restoring = [&](const ReadOnce& read) {
    return read_beside_the_ring(join.source, ring, open_store_, interrupt_, read, when_away);
  };
  const auto agreed = session_->is_divided()
                          ? agree_on_divided_state(ring, *session_, join.source, *wanted, history, transport_.node(), restoring)
                          : agree_on_state(ring, *session_, *wanted, history);
  if (!agreed) return tl::unexpected(agreed.error());
  // The sums of a step that was begun belong to the state that they were computed from.
  if (agreed->received || join.source.kind != rendezvous::StateSource::Kind::kMemory) session_->forget_sums();
  reporter_.replace_history(std::move(history), agreed->step);
  if (agreed->receivers > 0 && ring.rank() == agreed->donor) {
    const bool gradient = agreed->how == StateAgreement::How::kGradient;
    outbox_.event(join.job, gradient ? "gradient_taken" : "state_copied", in_words(*agreed, ring.world_size()));
  }
  spdlog::info("generation {} begins at step {}{}", join.generation, agreed->step, agreed->received ? ", state copied" : "");
  return {};
}

// The spans become text on the outbox's thread.
void JobRunner::send_profile(RecordedProfile recorded) {
  const LinkOptions& link = link_.options();
  outbox_.bodies("/v1/jobs/" + job_ + "/profile/parts", [recorded = std::move(recorded), &link] {
    std::vector<std::string> bodies;
    for (const auto& piece : pieces_of(recorded, link.worker, link.incarnation)) bodies.push_back(rendezvous::json_text(piece));
    return bodies;
  });
}

void JobRunner::report_stop(const Directive& join, const RunStop& stop) {
  spdlog::info("out of generation {} at step {}{}{}", join.generation, session_->held_step(), stop.reason.empty() ? "" : ": ",
               stop.reason);
  if (stop.why == RunStop::Why::kFault && !stop.told) report_fault(join, stop);
}

// The other members whose processes have ended: the kernel of a process that was killed refuses connections to its address at
// once. A process that closed its connection for a reason of its own still listens.
std::vector<int> JobRunner::gone_members(const Directive& join) const {
  std::this_thread::sleep_for(milliseconds(5));  // a dying process closes one socket after the other
  std::vector<std::string> addresses;
  for (const rendezvous::Member& member : join.members) addresses.push_back(member.address);
  std::vector<int> gone;
  for (const size_t rank : transport_.refusing(addresses, milliseconds(100))) gone.push_back(static_cast<int>(rank));
  std::erase(gone, join.rank);
  return gone;
}

void JobRunner::report_fault(const Directive& join, const RunStop& stop) {
  rendezvous::FaultReport met;
  met.generation = join.generation;
  met.suspect_rank = stop.suspect_rank;
  met.kind = stop.fault_kind;
  met.detail = stop.reason;
  met.checkpoint_step = stop.checkpoint_step;
  const auto gone = stop.suspect_ended ? gone_members(join) : std::vector<int>{};
  for (auto& report : fault_reports(std::move(met), gone, join.members)) outbox_.fault(join.job, std::move(report));
}

}  // namespace holdfast::worker
