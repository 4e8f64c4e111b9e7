#include "tests/sim/world.h"
#include "tests/sim/violation.h"

#include <algorithm>
#include <array>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::sim {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): jobs, every line

namespace {

// The number of steps is then found out by the workers: 7 to 41 with a global batch of 6 to 1.
JobSpec one_epoch_of(JobSpec spec) {
  spec.total_steps = 0;
  spec.epochs = 1;
  spec.block_size = 24;
  return spec;
}

// By what was drawn before: it draws nothing.
void choose_recipe(JobSpec& spec) {
  constexpr std::array kSchedules = {"cosine", "linear", "constant", "wsd"};
  spec.lr_schedule = kSchedules[static_cast<size_t>(spec.total_steps) % kSchedules.size()];
  spec.dropout = spec.total_steps % 3 == 0 ? 0.1 : 0;
  spec.biases = spec.keep_last % 2 == 0 ? "on" : "off";
  spec.tied_head = spec.global_batch_size % 2 == 0 ? "on" : "off";
}

}  // namespace

World::World(uint64_t seed, bool trace)
    : chance_(seed),
      story_(trace, time_),
      store_(story_),
      rules_(time_, store_),
      service_(time_, chance_, story_, store_, rules_, disk_),
      network_(time_, chance_, service_),
      rings_(time_, chance_),
      around_{time_, chance_, story_, rules_, rings_, network_, disk_, not_finite_} {
  const int64_t count = chance_.between(1, 4);
  for (int64_t i = 1; i <= count; ++i) hosts_.push_back(std::make_unique<Host>(around_, fmt::format("w{}", i)));
  rules_.watch(hosts_);
}

// The bits of the two are those of one long job.
void World::resume_from_predecessor(JobSpec& spec, const JobSpec& first) {
  spec.resume_from = "job:" + spec.after;
  spec.global_batch_size = first.global_batch_size;
  spec.dropout = first.dropout;
  spec.biases = first.biases;
  spec.tied_head = first.tied_head;
  spec.lr_schedule = first.lr_schedule;
  spec.total_steps = first.total_steps + chance_.between(1, 20);
}

void World::submit_jobs() {
  const auto workers = static_cast<int64_t>(hosts_.size());
  const int64_t count = workers > 1 && chance_.percent(30) ? chance_.between(2, 3) : 1;
  std::vector<JobSpec> submitted;
  for (int64_t i = 0; i < count; ++i) {
    JobSpec spec;
    spec.train_data_path = "data";
    spec.nodes = chance_.between(1, workers);
    spec.min_nodes = chance_.between(1, spec.nodes);
    spec.max_nodes = chance_.between(spec.nodes, workers);
    spec.gradient_accumulation_steps = 1;
    spec.batch_size = 1;
    spec.global_batch_size = chance_.between(workers, 6);
    spec.total_steps = chance_.between(3, 40);
    spec.warmup_steps = 1;
    spec.checkpoint_every = chance_.percent(70) ? chance_.between(2, 10) : 0;
    spec.keep_last = chance_.between(1, 3);
    spec.hash_every = chance_.percent(50) ? chance_.of(std::vector<int64_t>{1, 3}) : 0;
    spec.collective_timeout_s = static_cast<double>(chance_.between(2, 10));
    spec.recovery = chance_.percent(30) ? "checkpoint" : "memory";
    choose_recipe(spec);
    spec.priority = i > 0 && chance_.percent(60) ? i : 0;
    if (i > 0 && chance_.percent(20)) spec.after = fmt::format("j{}", i);
    int64_t begins_at = 0;
    if (!spec.after.empty() && chance_.percent(50)) {
      resume_from_predecessor(spec, submitted.back());
      begins_at = submitted.back().total_steps;
    }
    const bool in_epochs = begins_at == 0 && chance_.percent(20);
    if (in_epochs) spec = one_epoch_of(spec).with_steps_over(kDataTokens);
    if (chance_.percent(35)) spec.shard = chance_.of(std::vector<std::string>{"optimizer", "gradients", "parameters"});
    if (spec.shard != "none" && chance_.percent(60)) spec.dtype = "bfloat16";
    spec.replicas = chance_.between(1, std::clamp<int64_t>(spec.global_batch_size, 2, 3));
    submitted.push_back(spec);
    const int64_t at = i == 0 ? 0 : chance_.below(5000);
    const std::string id = fmt::format("j{}", i + 1);
    jobs_.push_back(id);
    if (begins_at > 0) not_finite_[id] = not_finite_[spec.after];  // it has the steps of the other one behind it
    spoil_steps(id, spec, begins_at);
    rules_.knows(id, spec, not_finite_[id]);
    const JobSpec asked = in_epochs ? one_epoch_of(spec) : spec;
    time_.after(at, [this, asked, i] { submit(asked, static_cast<size_t>(i)); });
  }
}

// Some steps in a row have no finite gradient: too few to end the job or, from one of them on, all.
void World::spoil_steps(const std::string& job, JobSpec& spec, int64_t begins_at) {
  spec.max_refused_steps = chance_.between(2, 4);
  if (!chance_.percent(30)) return;
  const bool for_good = chance_.percent(20);
  const int64_t first = chance_.between(begins_at + 1, spec.total_steps);
  const int64_t last = for_good ? spec.total_steps : first + chance_.below(spec.max_refused_steps - 1);
  for (int64_t step = first; step <= last; ++step) not_finite_[job].insert(step);
}

// As a client does it: until it is there. Idempotency keys are the matter of the service's own tests.
void World::submit(const JobSpec& spec, size_t before) {
  if (store_.durable().jobs.size() > before) return;
  if (store_.durable().jobs.size() == before) {
    service_.command([spec, before](Coordinator& service) {
      if (service.jobs().size() == before) service.submit(spec, {}, "", spec.after);
    });
  }
  time_.after(500, [this, spec, before] { submit(spec, before); });
}

void World::step_to(int64_t ms) {
  bool due = false;
  time_.after(std::max<int64_t>(0, ms - time_.now()), [&due] { due = true; });
  while (!due && time_.step()) ++tally_.events;
}

bool World::settled() const {
  if (!service_.up() || store_.durable().jobs.size() < jobs_.size()) return false;
  const bool ended = std::ranges::all_of(store_.durable().jobs,
                                         [](const auto& entry) { return is_ended(job_state_from(entry.second.state)); });
  return ended && std::ranges::all_of(hosts_, [](const auto& host) {
           Process* process = host->process();
           return process != nullptr && process->lifecycle().job.empty();
         });
}

void World::make_peace() {
  story_.tell("world", "---- peace: everything is well from now on");
  peace_ = true;
  network_.weather = {};
  disk_.failing = disk_.slow = false;
  service_.thaw();
  for (const auto& host : hosts_) {
    host->set_link(Host::Link::kSound);
    host->set_cut_from_peers(false);
    host->thaw();
    host->start();
  }
  rings_.poke();
}

// The operator in peace: starts what is down, resumes what is paused, and after a while asks for less.
void World::operate(bool patient) {
  service_.disarm();
  service_.start();
  for (const auto& host : hosts_) host->start();
  const auto workers = static_cast<int64_t>(hosts_.size());
  service_.command([this, workers, patient](Coordinator& service) {
    for (const auto& [_, job] : service.jobs()) {
      const JobMembership& m = job->membership;
      if (is_ended(m.state)) continue;
      if (m.intent == Intent::kPause) (void)service.resume(job->id);
      // Two jobs may each wait for workers that the other one keeps for the state in their memory: a person decides then.
      if (patient && m.min_nodes > 1) scale_to(service, job->id, {1, 1, workers});
    }
  });
}

void World::judge_end() {
  for (const std::string& job : jobs_) {
    const JobRow& row = store_.durable().jobs.at(job);
    if (row.state == "failed") {
      rules_.failed(job);
      continue;
    }
    if (row.state != "succeeded") throw Violation(fmt::format("{} is {}: {}", job, row.state, row.reason));
    rules_.succeeded(job, disk_);
    tally_.preemptions += service_.coordinator()->find_job(job)->membership->preemptions;
    tally_.generations += static_cast<int64_t>(store_.durable().generations.at(job).size());
    tally_.voided += row.lineage;
  }
}

Tally World::run() {
  service_.start();
  for (const auto& host : hosts_) {
    time_.after(chance_.below(2000), [&host] { host->start(); });
  }
  submit_jobs();
  choose_kinds();
  faults_until(chance_.between(0, 25'000));
  if (chance_.percent(4)) fill_disk();
  make_peace();
  const int64_t deadline = time_.now() + kPeaceMs;
  while (!settled()) {
    if (time_.now() >= deadline) {
      std::string how;
      for (const auto& [id, row] : store_.durable().jobs) how += fmt::format(" {} is {} ({}).", id, row.state, row.reason);
      throw Violation(fmt::format("{} s after the last fault not everything is at its end:{}", kPeaceMs / 1000, how));
    }
    operate(time_.now() > deadline - kPeaceMs / 2);
    step_to(time_.now() + 1000);
  }
  judge_end();
  tally_.simulated_ms = time_.now();
  return tally_;
}

}  // namespace holdfast::sim
