#include "tests/sim/rules/rules.h"

#include <algorithm>
#include <utility>

#include "rendezvous/protocol/job_spec.h"
#include "tests/sim/checkpoints.h"
#include "tests/sim/host.h"
#include "tests/sim/process.h"

namespace holdfast::sim {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): messages, every line

namespace {

std::string names(const std::vector<Member>& members) {
  std::string text;
  for (const Member& member : members) text += (text.empty() ? "" : ", ") + member.incarnation;
  return text;
}

// When a generation forms, whoever took part in the one before has stopped, was left out or is gone.
void check_all_stopped(const JobMembership& job) {
  const auto is_in = [](const std::vector<Member>& members, const Participant& p) {
    return std::ranges::find(members, p.member.incarnation, &Member::incarnation) != members.end();
  };
  for (const auto& [worker, p] : job.participants) {
    const bool takes_part = p.status.phase == Phase::kActive && p.status.generation < job.current.number;
    if (takes_part && !p.left_out && !p.gone && is_in(job.last_members, p) && !is_in(job.current.members, p))
      broken("generation {} of {} forms while {} still takes part in the one before", job.current.number, job.job, worker);
  }
}

}  // namespace

// --- the service

void Rules::before_request(const Coordinator& service) {
  for (const auto& [_, job] : service.jobs()) {
    const JobMembership& m = job->membership;
    before_[job->id] = {m.committed_step, m.current.number, static_cast<int64_t>(m.checkpoints.size()),
                        m.lineage,        m.state,          m.stage};
    if (current_before_[job->id].secret != m.current.secret) current_before_[job->id] = m.current;
  }
}

void Rules::after_request(const Coordinator& service, const Request& request, const Response& response) {
  if (const auto* status = std::get_if<StatusMessage>(&request)) {
    judge_worker(status->status.incarnation, response);
    const std::string& job = status->status.job;
    const bool late = before_[job].generation > past_[job].generation;
    if (!response.refusal) heard_.said(job, status->status.generation, late);
  }
  if (const auto* poll = std::get_if<Poll>(&request)) judge_worker(poll->incarnation, response);
  if (const auto* message = std::get_if<JobMessage>(&request)) judge_message(service, *message, response);
  if (const auto* lost = std::get_if<WorkerLost>(&request)) {
    over_soon_.insert(lost->incarnation);
    for (const auto& [id, worker] : service.workers()) {
      if (worker.registration.incarnation == lost->incarnation && worker.life == Worker::Life::kAlive)
        broken("{} is alive for the service after its end was reported", lost->incarnation);
    }
  }
}

void Rules::judge_worker(const std::string& incarnation, const Response& response) {
  const bool refused = response.refusal.has_value();
  if (refused && response.refusal->kind == Refusal::Kind::kStale) over_soon_.insert(incarnation);
  // A life that the service never heard of is asked to register, and only then told that it is over.
  if (!refused && over_.contains(incarnation)) broken("{} is over, and is heard again", incarnation);
}

void Rules::judge_message(const Coordinator& service, const JobMessage& message, const Response& response) {
  const Job* job = service.find_job(message.job);
  if (job == nullptr || !before_.contains(message.job)) return;
  const Generation& current = current_before_[message.job];
  const auto said = std::visit(
      [](const auto& body) {
        return std::tuple{body.worker, body.incarnation, body.generation};
      },
      message.body);
  const auto& [worker, incarnation, generation] = said;
  const int rank = rank_in(current, worker, incarnation);
  const auto* progress = std::get_if<Progress>(&message.body);
  const auto* record = std::get_if<CheckpointRecord>(&message.body);
  bool counts = generation == current.number && rank >= 0 && !over_.contains(incarnation) && (progress == nullptr || rank == 0);
  if (record != nullptr && counts) {
    for (const auto& [number, later] : store_.durable().generations.at(message.job)) {
      if (later.members.empty()) continue;  // known by its number alone
      if (number > record->state_generation && later.source.step < record->step) counts = false;
    }
  }
  const bool taken = !response.unreachable && !response.refusal;
  if (taken && !counts)
    broken("a message of {} on generation {} of {} is taken, which is at generation {} of {}", incarnation, generation,
           message.job, current.number, names(current.members));
  const JobMembership& m = job->membership;
  const JobView after{m.committed_step, m.current.number, static_cast<int64_t>(m.checkpoints.size()),
                      m.lineage,        m.state,          m.stage};
  if (!taken && !(after == before_[message.job]))
    broken("a message of {} was refused and changed {}", incarnation, message.job);
  if (taken && progress != nullptr) {
    promises_.push_back(
        {fmt::format("step {} is committed", progress->step), [id = message.job, step = progress->step](const Tables& t) {
           return t.jobs.at(id).committed_step >= step || t.jobs.at(id).lineage > 0;
         }});
  }
  if (taken && record != nullptr) {
    if (record->state_hash != right_state(message.job, record->step).hash())
      broken("the checkpoint of step {} is registered with the hash {}, which is wrong", record->step, record->state_hash);
    promises_.push_back({fmt::format("the checkpoint of step {} is kept", record->step),
                         [id = message.job, step = record->step](const Tables& t) {
                           return t.checkpoints.contains(id) && !t.checkpoints.at(id).empty() &&
                                  t.checkpoints.at(id).rbegin()->first >= step;
                         }});
  }
}

void Rules::turn_lost() {
  promises_.clear();
  over_soon_.clear();
  heard_.turn_lost();
  scaled_.clear();
}

void Rules::committed(const Coordinator& service) {
  over_.merge(over_soon_);
  over_soon_.clear();
  heard_.before_judging();
  for (const Promise& promise : std::exchange(promises_, {})) {
    if (!promise.kept(store_.durable())) broken("it is answered that {}, and the disk does not have it", promise.text);
  }
  check_preemptions(service);
  check_kept(service);
  for (const auto& [id, row] : store_.durable().jobs) check_job(service, id, row);
  heard_.after_judging();
}

void Rules::check_job(const Coordinator& service, const std::string& id, const JobRow& row) {
  Past& past = past_[id];
  const Generation* newest = store_.durable().newest_generation(id);
  const int64_t generation = newest == nullptr ? 0 : newest->number;
  if (past.generation == generation && past.committed_step == row.committed_step) return;
  if (generation < past.generation) broken("job {} went back from generation {} to {}", id, past.generation, generation);
  const bool formed = generation > past.generation && !newest->members.empty();
  const bool restored = past.restored;
  if (formed || row.committed_step >= past.committed_step) past.restored = false;
  if (row.committed_step < past.committed_step && !past.restored) {
    if (generation == past.generation)
      broken("job {} went back from step {} to {} within generation {}", id, past.committed_step, row.committed_step,
             generation);
    went_back(service, id, past.committed_step, row.committed_step, restored);
  }
  if (formed) {
    check_all_stopped(service.find_job(id)->membership);
    check_number(id, generation);
    check_begins_after(id, *newest);
  }
  check_beginning(id);
  check_ledger(id, row);
  check_steps(id);
  past.generation = generation;
  if (!past.restored) past.committed_step = row.committed_step;
}

// A person's numbers are on disk, and the decisions count on the checkpoints of the catalogue and on no others.
void Rules::check_kept(const Coordinator& service) {
  for (const auto& [id, wanted] : std::exchange(scaled_, {})) {
    const JobRow& row = store_.durable().jobs.at(id);
    if (row.min_nodes != wanted.min_nodes || row.nodes != wanted.nodes || row.max_nodes != wanted.max_nodes)
      broken("{} was scaled to {}, {} and {} workers, and has {}, {} and {} on disk", id, wanted.min_nodes, wanted.nodes,
             wanted.max_nodes, row.min_nodes, row.nodes, row.max_nodes);
  }
  for (const auto& [number, job] : service.jobs()) {
    const auto found = store_.durable().checkpoints.find(job->id);
    const size_t kept = found == store_.durable().checkpoints.end() ? 0 : found->second.size();
    if (job->membership->checkpoints.size() != kept)
      broken("{} counts on {} checkpoints, and {} are in the catalogue", job->id, job->membership->checkpoints.size(), kept);
    for (const auto& [step, known] : job->membership->checkpoints) {
      if (!found->second.contains(step)) broken("{} counts on the checkpoint of step {}, which was removed", job->id, step);
      if (known.unreadable && database_ == 0)
        broken("{} has given up the checkpoint of step {}, which one host at most could not read", job->id, step);
    }
  }
}

// The step of another job's checkpoint that the job began with; 0: it began anew.
int64_t Rules::begins_at(const std::string& job) const {
  const JobSpec& spec = specs_.at(job);
  return spec.resume_from.empty() ? 0 : specs_.at(spec.after).total_steps;
}

// A job that goes on from another one begins with the last state of that one.
void Rules::check_beginning(const std::string& job) const {
  const JobSpec& spec = specs_.at(job);
  const auto generations = store_.durable().generations.find(job);
  if (spec.resume_from.empty() || generations == store_.durable().generations.end()) return;
  const Generation& first = generations->second.begin()->second;
  if (first.members.empty()) return;  // of a database that was restored
  if (first.source.job != spec.after || first.source.step != specs_.at(spec.after).total_steps)
    broken("{} is to go on from the end of {}, and begins from step {} of \"{}\"", job, spec.after, first.source.step,
           first.source.job);
}

// Only for a job of higher priority, and after its last step was written down.
void Rules::check_preemptions(const Coordinator& service) {
  for (const auto& [number, job] : service.jobs()) {
    const JobMembership& m = job->membership;
    const bool again = m.preemptions > std::exchange(preemptions_[job->id], m.preemptions);
    if (!again) continue;
    const Job* by = service.find_job(m.preempted_by);
    if (by == nullptr || by->membership->spec.priority <= m.spec.priority)
      broken("{} of priority {} was preempted by \"{}\"", job->id, m.spec.priority, m.preempted_by);
    if (kept_step(m) < m.committed_step)
      broken("{} was preempted at step {}, and only step {} is written down", job->id, m.committed_step, kept_step(m));
  }
}

// A generation began below a committed step: nobody who holds a newer state of this history may have been there to ask.
// `restored`: the first generation after the database was put back. Then a state counts if it is of the newest generation that
// anybody holds a state of.
void Rules::went_back(const Coordinator& service, const std::string& job, int64_t from, int64_t to, bool restored) const {
  constexpr int64_t kWellMs = 15000;
  const JobMembership& m = service.find_job(job)->membership;
  if (m.spec.recovery == "checkpoint") return;
  const int64_t last = m.current.number - 1;
  if (bad_memory.distrusted(job, last)) return;
  for (const auto& host : *hosts_) {
    const Process* process = host->process();
    if (process == nullptr || !process->holds(job)) continue;
    const ModelState& state = *process->state();
    if (state.step <= to || is_void(job, state, last)) continue;
    const auto p = m.participants.find(host->name());
    const bool leaves = p == m.participants.end() || p->second.member.incarnation != process->incarnation() ||
                        !p->second.wanted || p->second.status.leaving || process->lifecycle().leaving;
    if (leaves) continue;
    const WorkerStatus& said = p->second.status;
    if (restored && said.state_generation < newest_state_generation(m)) continue;
    // Not in the very moment in which the generation formed: who comes then came too late.
    const bool in_time = p->second.prepared_ms >= 0 && p->second.prepared_ms < m.formed_ms;
    const bool member = rank_in(m.current, host->name(), process->incarnation()) >= 0;
    const bool answered = (in_time || (restored && member)) && said.phase == Phase::kPrepared && said.step > to &&
                          said.step <= state.step && said.generation >= last;
    const bool sound =
        host->well() && host->troubled_until_ms() + kWellMs < time_.now() && service_troubled_ms_ + kWellMs < time_.now();
    if (answered || sound)
      broken("generation {} of {} goes back from step {} to {}, and {} holds step {} and {}", m.current.number, job, from, to,
             process->incarnation(), state.step, answered ? "had said so" : "is well");
  }
}

void Rules::check_ledger(const std::string& job, const JobRow& row) const {
  const auto found = store_.durable().ledger.find(job);
  const int64_t all = microbatches(job);
  const auto unknown = unknown_to_.find(job);
  for (int64_t step = begins_at(job) + 1; step <= row.committed_step; ++step) {
    const bool there = found != store_.durable().ledger.end() && found->second.contains(step);
    if (!there && unknown != unknown_to_.end() && step <= unknown->second) continue;
    if (found == store_.durable().ledger.end() || !found->second.contains(step))
      broken("step {} of {} is committed, and the ledger does not have it", step, job);
    std::vector<int> count(static_cast<size_t>(all));
    for (const LedgerShare& share : found->second.at(step)) {
      for (int64_t m = share.first; m < share.last; ++m) ++count.at(static_cast<size_t>(m));
    }
    if (std::ranges::any_of(count, [](int n) { return n != 1; }))
      broken("a microbatch of step {} of {} is in the ledger twice or not at all", step, job);
  }
  if (found != store_.durable().ledger.end() && !found->second.empty() && found->second.rbegin()->first > row.committed_step)
    broken("the ledger of {} has step {}, and only {} are committed", job, found->second.rbegin()->first, row.committed_step);
}

void Rules::check_steps(const std::string& job) const {
  const auto found = store_.durable().steps.find(job);
  if (found == store_.durable().steps.end()) return;
  const int64_t all = microbatches(job);
  for (const auto& [step, row] : found->second) {
    uint64_t digest = 0;
    for (int64_t m = 0; m < all; ++m) digest += tokens_of(step - 1, m);
    if (row.point.tokens_digest != fmt::format("{:016x}", digest))
      broken("step {} of {} consumed other tokens than its own", step, job);
    if (row.point.refused != not_finite_.at(job).contains(step))
      broken("step {} of {} is recorded as {}", step, job, row.point.refused ? "left out" : "applied");
  }
}

void Rules::answered(const Response& response) {
  if (!response.change || response.change->kind != DirectiveKind::kJoin) return;
  const Directive& join = *response.change;
  const auto& generations = store_.durable().generations;
  const bool there = generations.contains(join.job) && generations.at(join.job).contains(join.generation) &&
                     generations.at(join.job).at(join.generation).secret == join.secret;
  if (!there) broken("a worker is told to join generation {} of {}, which is not on disk", join.generation, join.job);
  Secret& secret = secrets_[{join.job, join.generation}];
  if (!secret.secret.empty() && secret.secret != join.secret && secret.database == database_)
    broken("generation {} of {} has two secrets", join.generation, join.job);
  secret = {join.secret, database_};
  const Told told{join.secret, join.members, join.source};
  const auto [first, fresh] = told_.try_emplace({join.job, join.generation, join.secret}, told);
  if (!fresh && !(first->second == told))
    broken("generation {} of {} is of {} for one, and of {} for another", join.generation, join.job,
           names(first->second.members), names(told.members));
}

// --- workers

void Rules::joins(const Process& process, const Directive& join) {
  const auto fenced = fenced_.find({process.incarnation(), join.job});
  if (fenced != fenced_.end() && join.generation <= fenced->second)
    broken("{} joins generation {} of {} and had said that it is fenced up to {}", process.incarnation(), join.generation,
           join.job, fenced->second);
  if (!joined_.insert({process.incarnation(), join.job, join.generation}).second)
    broken("{} joins generation {} of {} a second time", process.incarnation(), join.generation, join.job);
  const Member& me = join.members.at(static_cast<size_t>(join.rank));
  if (me.incarnation != process.incarnation()) broken("{} joins in the place of {}", process.incarnation(), me.incarnation);
}

void Rules::ring_formed(const Directive& join) {
  const Told told{join.secret, join.members, join.source};
  const auto [first, fresh] = told_.try_emplace({join.job, join.generation, join.secret}, told);
  if (!fresh && !(first->second == told)) broken("two rings form for generation {} of {}", join.generation, join.job);
}

void Rules::goes_on_from(const Process& process, const Directive& join, const ModelState& state) {
  if (state.step != join.source.step)
    broken("{} goes on from step {} in generation {}, which begins at {}", process.incarnation(), state.step, join.generation,
           join.source.step);
  if (state.bits != right_state(join.job, state.step).bits) broken("{} goes on from a wrong state", process.incarnation());
  if (is_known(join) && is_void(join.job, state, join.generation)) {
    const auto unknown = unknown_to_.find(join.job);
    if (unknown == unknown_to_.end() || state.step > unknown->second)
      broken("{} goes on in generation {} from a state of step {} that the job has gone back behind", process.incarnation(),
             join.generation, state.step);
    lost_history_to_[join.job] = join.generation;
  }
}

void Rules::applied(const Process& process, const Directive& join, const ModelState& state, const worker::StepShares& shares) {
  if (state.bits != right_state(join.job, state.step).bits)
    broken("{} has a wrong state after step {}", process.incarnation(), state.step);
  if (is_known(join) && is_void(join.job, state, join.generation))
    broken("{} trains in generation {} on a history that the job has given up", process.incarnation(), join.generation);
  dealt_.try_emplace({join.job, join.generation, state.step}, Dealt{join.members, shares.own});
  if (!is_known(join)) unknown_to_[join.job] = std::max(unknown_to_[join.job], state.step);
}

void Rules::is_slow(const Process& process, const Directive& join, const worker::StepShares& shares) const {
  const Share even = deal(microbatches(join.job), static_cast<int>(join.members.size()), join.rank);
  const auto share = static_cast<int64_t>(shares.own[static_cast<size_t>(join.rank)].size());
  if (join.members.size() > 1 && even.last - even.first > 1 && share >= even.last - even.first)
    broken("{} is slow for long, and computes {} microbatches of each step of {} as before", process.incarnation(), share,
           join.job);
}

void Rules::status_sent(const Process& process, const WorkerStatus& status) {
  if (status.phase != Phase::kPrepared) return;
  int64_t& fenced = fenced_[{process.incarnation(), status.job}];
  fenced = std::max(fenced, status.generation);
}

void Rules::checkpoint_unreadable(const Directive& join, const std::string& reason) {
  // Of a generation that is over, which one that was frozen still tries to join: retention may have been there since.
  const Generation* newest = store_.durable().newest_generation(join.job);
  if (newest == nullptr || newest->number > join.generation) return;
  if (database_ > 0) return;  // an older copy may have a checkpoint that is gone
  broken("generation {} of {} is to begin from the checkpoint of step {}, and {}", join.generation, join.job, join.source.step,
         reason);
}

// Whether a later generation, up to `generation`, began below a step of this state before that step was applied.
bool Rules::is_void(const std::string& job, const ModelState& state, int64_t generation) const {
  const auto generations = store_.durable().generations.find(job);
  if (generations == store_.durable().generations.end()) return false;
  const auto lost = lost_history_to_.find(job);
  for (const auto& [number, later] : generations->second) {
    const int64_t from = later.source.step;
    if (lost != lost_history_to_.end() && number <= lost->second) continue;
    if (later.members.empty()) continue;  // known by its number alone
    if (number > generation || from >= state.step) continue;
    if (state.born[static_cast<size_t>(from)] < number) return true;
  }
  return false;
}

const ModelState& Rules::right_state(const std::string& job, int64_t step) {
  auto& states = right_[job];
  if (states.empty()) states.push_back(initial_state());
  const int64_t all = microbatches(job);
  const uint64_t recipe = recipe_of(specs_.at(job));
  while (static_cast<int64_t>(states.size()) <= step) {
    ModelState next = states.back();
    uint64_t gradient = 0;
    for (int64_t m = 0; m < all; ++m) gradient += gradient_of(states.back(), m, recipe);
    const bool finite = !not_finite_[job].contains(next.step + 1);
    finite ? apply_step(next, gradient, 0) : leave_out_step(next, 0);
    states.push_back(std::move(next));
  }
  return states[static_cast<size_t>(step)];
}

}  // namespace holdfast::sim
