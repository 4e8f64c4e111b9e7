// The kinds of faults. Each run chooses some of the kinds, so that each is seen alone and in company.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/sim/world.h"

namespace holdfast::sim {

using rendezvous::Coordinator;

const std::vector<World::Kind>& World::kinds() {
  static const std::vector<Kind> kKinds = {
      {5, &World::kill_process},
      {2, &World::kill_node},
      {4, &World::freeze},
      {3, &World::cut_from_service},
      {3, &World::cut_from_peers},
      {2, &World::told_to_end},
      {2, &World::drain},
      {4, &World::kill_service},
      {2, &World::freeze_service},
      {3, &World::break_disk},
      {3, &World::spoil_weather},
      {2, &World::pause_and_resume},
      {2, &World::scale},
      {3, &World::part_two},
      {2, &World::remove_checkpoint},
      {2, &World::restore_database},
      {2, &World::restore_at_an_end},
      {3, &World::slow_down},
      {4, &World::spoil_host},
  };
  return kKinds;
}

void World::choose_kinds() {
  for (const Kind& kind : kinds()) {
    if (chance_.percent(50)) chosen_.insert(chosen_.end(), static_cast<size_t>(kind.weight), kind.fault);
  }
}

void World::faults_until(int64_t ms) {
  const int64_t pace = chance_.of(std::vector<int64_t>{300, 1000, 3000});
  while (time_.now() < ms) {
    step_to(std::min(ms, time_.now() + chance_.between(10, pace)));
    if (chosen_.empty()) continue;
    ++tally_.faults;
    (this->*chance_.of(chosen_))();
  }
}

void World::kill_process() {
  any_host().kill_process();
}

void World::kill_node() {
  Host& host = any_host();
  host.kill_all();
  time_.after(chance_.between(100, 12'000), [&host] { host.start(); });
}

void World::freeze() {
  Host& host = any_host();
  host.freeze();
  time_.after(chance_.between(50, 9000), [&host] { host.thaw(); });
}

void World::cut_from_service() {
  Host& host = any_host();
  host.set_link(static_cast<Host::Link>(chance_.between(1, 3)));
  time_.after(chance_.between(50, 9000), [&host] { host.set_link(Host::Link::kSound); });
}

void World::cut_from_peers() {
  Host& host = any_host();
  host.set_cut_from_peers(true);
  time_.after(chance_.between(50, 9000), [&host] { host.set_cut_from_peers(false); });
}

// Some firewalls are never mended.
void World::part_two() {
  const std::string a = any_host().name(), b = any_host().name();
  if (a == b) return;
  const bool heals = chance_.percent(50);
  story_.tell("network", "nothing passes between {} and {} {}", a, b, heals ? "for a while" : "from now on");
  rings_.set_apart(a, b, true);
  if (!heals) return;
  time_.after(chance_.between(50, 60'000), [this, a, b] {
    story_.tell("network", "{} and {} reach each other again", a, b);
    rings_.set_apart(a, b, false);
    rings_.poke();
  });
}

// One at a time: two that are equally slow compute as much as each other.
void World::slow_down() {
  constexpr int64_t kTimes = 8;
  if (std::ranges::any_of(hosts_, [](const auto& host) { return host->slowness() > 1; })) return;
  Host& host = any_host();
  host.set_slowness(kTimes);
  time_.after(chance_.between(2000, 30'000), [&host] { host.set_slowness(1); });
}

// Its memory, or what it reads; the latter of one host in a run, for the word of two counts.
void World::spoil_host() {
  if (chance_.percent(50)) return any_host().let_memory_go_bad();
  if (bad_reader_ == nullptr) bad_reader_ = &any_host();
  bad_reader_->let_reading_go_bad();
}

void World::told_to_end() {
  Host& host = any_host();
  host.terminate();
  time_.after(chance_.between(500, 10'000), [&host] { host.start(); });
}

void World::drain() {
  Host& host = any_host();
  service_.command([name = host.name()](Coordinator& service) { (void)service.drain(name); });
  time_.after(chance_.between(500, 10'000), [&host] { host.start(); });
}

void World::service_back(int64_t ms) {
  rules_.service_troubled();
  time_.after(ms, [this] {
    rules_.service_troubled();
    service_.start();
  });
}

void World::kill_service() {
  const int64_t away = chance_.percent(50) ? chance_.between(10, 300) : chance_.between(300, 14'000);
  if (chance_.percent(25)) {
    service_.kill("killed");
  } else {
    service_.die_at_next_commit(static_cast<Death>(chance_.below(3)));
  }
  // A death at the next commit comes within a heartbeat.
  service_back(1000 + away);
}

// Once there is one, it is put back.
void World::restore_database() {
  if (!copy_) return copy_database();
  story_.tell("service", "its database is replaced by the older copy");
  service_.kill("killed");
  store_.put_back(*std::exchange(copy_, std::nullopt));
  rules_.database_restored();
  service_.database_was_restored(chance_.percent(70));
  service_back(chance_.between(10, 5000));
}

// A job of the copy has its last checkpoint, or has ended since.
bool World::is_ending() const {
  return std::ranges::any_of(copy_->jobs, [this](const auto& entry) {
    const auto& [id, then] = entry;
    const int64_t total_steps = rendezvous::job_spec_from_json(nlohmann::json::parse(then.spec)).steps_over(kDataTokens);
    const auto checkpoints = store_.durable().checkpoints.find(id);
    return then.state == "running" && checkpoints != store_.durable().checkpoints.end() &&
           checkpoints->second.contains(total_steps);
  });
}

// The moment in which the most is lost: somebody has been told that all is done.
void World::restore_at_an_end() {
  if (copy_ || store_.durable().jobs.size() < jobs_.size()) return;
  copy_database();
  await_an_end(time_.now() + 20'000);
}

void World::await_an_end(int64_t until_ms) {
  if (!copy_ || peace_ || time_.now() > until_ms) return;
  if (!is_ending()) return time_.after(chance_.between(1, 4), [this, until_ms] { await_an_end(until_ms); });
  restore_database();
  if (!chance_.percent(30)) return;
  for (const auto& host : hosts_) host->kill_process();
}

void World::copy_database() {
  if (store_.durable().jobs.size() < jobs_.size()) return;  // a client would submit the missing one again, under another id
  story_.tell("service", "a copy of its database is made");
  copy_ = store_.durable();
}

void World::freeze_service() {
  story_.tell("service", "freezes");
  rules_.service_troubled();
  service_.freeze();
  time_.after(chance_.between(50, 8000), [this] {
    story_.tell("service", "thaws");
    rules_.service_troubled();
    service_.thaw();
  });
}

void World::break_disk() {
  const bool fails = chance_.percent(60);
  story_.tell("disk", "{}", fails ? "fails" : "is slow");
  (fails ? disk_.failing : disk_.slow) = true;
  time_.after(chance_.between(100, 10'000), [this] { disk_.failing = disk_.slow = false; });
}

// For longer than any yield is waited for.
void World::fill_disk() {
  const int64_t until = time_.now() + chance_.between(200'000, 300'000);
  story_.tell("disk", "is full for minutes");
  while (time_.now() < until) {
    disk_.failing = true;  // the end of an earlier fault changes nothing
    step_to(std::min(until, time_.now() + 1000));
  }
}

void World::spoil_weather() {
  network_.weather.lost_percent = chance_.percent(50) ? chance_.between(1, 30) : 0;
  network_.weather.doubled_percent = chance_.percent(50) ? chance_.between(1, 30) : 0;
  network_.weather.late_percent = chance_.percent(50) ? chance_.between(1, 40) : 0;
  network_.weather.late_ms = chance_.between(10, 6000);
  story_.tell("network", "loses {} %, doubles {} %, delays {} % by up to {} ms", network_.weather.lost_percent,
              network_.weather.doubled_percent, network_.weather.late_percent, network_.weather.late_ms);
  time_.after(chance_.between(500, 8000), [this] { network_.weather = {}; });
}

void World::pause_and_resume() {
  const std::string job = chance_.of(jobs_);
  service_.command([job](Coordinator& service) { (void)service.pause(job); });
  time_.after(chance_.between(50, 8000),
              [this, job] { service_.command([job](Coordinator& service) { (void)service.resume(job); }); });
}

void World::scale() {
  const std::string job = chance_.of(jobs_);
  const auto workers = static_cast<int64_t>(hosts_.size());
  const int64_t least = chance_.between(1, workers), most = chance_.between(least, workers);
  const int64_t nominal = chance_.between(least, most);
  service_.command([=, this](Coordinator& service) {
    const rendezvous::Job* known = service.find_job(job);
    const bool divided = known != nullptr && known->membership->shard_now() != "none";
    scale_to(service, job, {least, nominal, most, divided ? 1 + nominal % 3 : 0});
  });
}

void World::scale_to(Coordinator& service, const std::string& job, const Coordinator::Scale& wanted) {
  if (service.scale(job, wanted)) rules_.scaled(job, wanted);
}

// An old one, which nobody begins from.
void World::remove_checkpoint() {
  service_.command([this, id = chance_.of(jobs_)](Coordinator& service) {
    const rendezvous::Job* job = service.find_job(id);
    if (job == nullptr || job->checkpoints.size() < 2) return;
    const int64_t oldest = job->checkpoints.begin()->first;
    if (oldest == job->membership->current.source.step) return;
    story_.tell("disk", "the checkpoint of step {} of {} is removed", oldest, id);
    disk_.remove(id, oldest);
    service.checkpoint_removed(id, oldest);
  });
}

}  // namespace holdfast::sim
