// The commands of stories. Words in capitals stand for any word; STEP and NUMBER are whole numbers.
//
//   worker NAME on NODE        a worker comes for the first time
//   NAME is killed             kill -9: its neighbours' connections break, its supervisor reports it
//   NAME loses power           its connections fall silent, and nobody reports it
//   NAME freezes | wakes       SIGSTOP, SIGCONT
//   NAME restarts              a dead worker's next life begins
//   NAME is told to end        SIGTERM
//   NAME reports NAME KIND     one worker reports a fault of the other, of a kind that workers report
//   submit FIELD=NUMBER…       a job is submitted; scale NUMBER, pause, resume, stop, drain NAME apply to the newest job
//   train to STEP              the newest job's ring makes steps of 0.1 s each, and rank 0 reports them; total_steps is the end
//   train JOB to STEP          the same for an older job
//   training fails             the job cannot go on
//   why JOB waits              the reason that people see
//   checkpoint                 rank 0 registers a checkpoint of the present step
//   checkpoint STEP is corrupt this checkpoint will not verify
//   NUMBER s pass              time goes on
//   service dies | returns     kill -9, and a new start
//   everything dies            the service and all workers at once
//   database is copied         a copy is made; "copy is put back" puts it in place, while the service is away
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "rendezvous/protocol/job_spec.h"
#include "rendezvous/queries/waits_for.h"
#include "tests/scenarios/stage.h"

namespace holdfast::scenarios {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): everything here is about it

namespace {

// Whether `words` match `pattern`, in which "*" stands for any one word.
bool are(const std::vector<std::string>& words, const std::vector<std::string>& pattern) {
  if (words.size() != pattern.size()) return false;
  for (size_t i = 0; i < words.size(); ++i) {
    if (pattern[i] != "*" && pattern[i] != words[i]) return false;
  }
  return true;
}

void must(const OrRefusal<void>& outcome) {
  if (!outcome) throw std::invalid_argument(outcome.error().detail);
}

}  // namespace

void Stage::perform(const std::string& command) {
  std::istringstream in(command);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  const bool known = about_time(words) || about_service(words) || about_job(words) || about_worker(words);
  if (!known)
    throw std::invalid_argument(fmt::format("\"{}\" is nothing that a story can say (commands.cpp has the list)", command));
  settle();
}

bool Stage::about_time(const Words& words) {
  if (are(words, {"*", "s", "pass"})) {
    advance(static_cast<int64_t>(std::stod(words[0]) * 1000));
  } else if (are(words, {"train", "to", "*"})) {
    train_to(run_of(job_), std::stoll(words[2]));
  } else if (are(words, {"train", "*", "to", "*"})) {
    train_to(run_of(words[1]), std::stoll(words[3]));
  } else if (are(words, {"training", "fails"})) {
    fail(run_of(job_));
  } else if (are(words, {"why", "*", "waits"})) {
    say(reason_of(WaitingRoom(*coordinator_), *coordinator_->find_job(words[1])));
  } else {
    return false;
  }
  return true;
}

bool Stage::about_service(const Words& words) {
  if (are(words, {"service", "dies"})) {
    close_service();
  } else if (are(words, {"service", "returns"})) {
    open_service();
  } else if (are(words, {"everything", "dies"})) {
    kill_everything();
  } else if (are(words, {"database", "is", "copied"})) {
    copy_database();
  } else if (are(words, {"copy", "is", "put", "back"})) {
    put_copy_back();
  } else {
    return false;
  }
  return true;
}

bool Stage::about_job(const Words& words) {
  if (!words.empty() && words[0] == "submit") {
    submit(words);
  } else if (are(words, {"scale", "*"})) {
    scale(std::stoll(words[1]));
  } else if (are(words, {"pause"})) {
    must(coordinator_->pause(job_));
  } else if (are(words, {"resume"})) {
    must(coordinator_->resume(job_));
  } else if (are(words, {"stop"})) {
    must(coordinator_->stop(job_));
  } else if (are(words, {"drain", "*"})) {
    must(coordinator_->drain(words[1]));
  } else if (are(words, {"checkpoint"})) {
    register_checkpoint(run_of(job_));
  } else if (are(words, {"checkpoint", "*", "is", "corrupt"})) {
    corrupt_.insert(std::stoll(words[1]));
  } else {
    return false;
  }
  return true;
}

bool Stage::about_worker(const Words& words) {
  if (are(words, {"worker", "*", "on", "*"})) {
    Actor& actor = actors_[words[1]];
    actor.name = words[1];
    actor.node = words[3];
    begin_life(actor);
  } else if (are(words, {"*", "is", "killed"})) {
    kill(actor(words[0]), true);
  } else if (are(words, {"*", "loses", "power"})) {
    kill(actor(words[0]), false);
  } else if (are(words, {"*", "freezes"})) {
    actor(words[0]).life = Actor::Life::kFrozen;
  } else if (are(words, {"*", "wakes"})) {
    actor(words[0]).life = Actor::Life::kWell;
    actor(words[0]).news = true;
  } else if (are(words, {"*", "restarts"})) {
    begin_life(actor(words[0]));
  } else if (are(words, {"*", "is", "told", "to", "end"})) {
    actor(words[0]).status.leaving = actor(words[0]).news = true;
  } else if (are(words, {"*", "reports", "*", "*"})) {
    break_connection(actor(words[0]), actor(words[2]), words[3]);
  } else {
    return false;
  }
  return true;
}

Actor& Stage::actor(const std::string& name) {
  const auto found = actors_.find(name);
  if (found == actors_.end()) throw std::invalid_argument("there is no worker " + name + " in this story yet");
  return found->second;
}

void Stage::submit(const Words& words) {
  nlohmann::json json = {{"name", "story"}, {"train_data_path", "train.bin"}, {"batch_size", 1}, {"global_batch_size", 6}};
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t at = words[i].find('=');
    if (at == std::string::npos) throw std::invalid_argument(words[i] + " is no FIELD=NUMBER");
    json[words[i].substr(0, at)] = std::stoll(words[i].substr(at + 1));
  }
  const auto spec = parse_job_spec(json);
  if (!spec) throw std::invalid_argument(spec.error()[0].field + ": " + spec.error()[0].message);
  job_ = coordinator_->submit(*spec, {}, "").id;
  Run& run = runs_[job_] = {};
  run.job = job_;
  run.total_steps = spec->total_steps;
}

void Stage::scale(int64_t nodes) {
  must(coordinator_->scale(job_, {1, nodes, nodes}));
}

void Stage::begin_life(Actor& actor) {
  ++actor.life_number;
  actor.life = Actor::Life::kWell;
  actor.status = WorkerStatus{};
  actor.status.incarnation = actor.incarnation();
  actor.news = true;
  actor.was_told = false;
}

// A live worker notices that another one is broken: its run ends, it keeps its state, and it reports the reason.
void Stage::break_connection(Actor& witness, const Actor& broken, const std::string& kind) {
  const Run& run = run_of(witness.status.job);
  int rank = -1;
  for (size_t i = 0; i < run.ring.size(); ++i) {
    if (run.ring[i].worker == broken.name) rank = static_cast<int>(i);
  }
  const std::string detail =
      kind == "timeout" ? "no bytes moved for 30.0 s" : fmt::format("rank {} ({}:1) ended its connection", rank, broken.name);
  faults_.push_back({run.job, {witness.name, witness.incarnation(), run.generation, rank, kind, detail, -1}});
  witness.status.phase = Phase::kPrepared;
  witness.status.reason = detail;
  witness.news = true;
}

void Stage::kill(Actor& dead, bool reported) {
  const auto run = runs_.find(dead.status.job);
  const bool was_active = run != runs_.end() && run->second.has(dead);
  const std::string incarnation = dead.incarnation();
  dead.life = Actor::Life::kDead;
  if (!reported) return;
  for (const Member& member : was_active ? run->second.ring : std::vector<Member>()) {
    Actor& other = actors_.at(member.worker);
    if (other.incarnation() == member.incarnation && run->second.has(other)) break_connection(other, dead, "connection_lost");
  }
  losses_.push_back({incarnation, "killed by signal 9 (SIGKILL)", {}});
}

void Stage::kill_everything() {
  close_service();
  for (auto& [name, actor] : actors_) actor.life = Actor::Life::kDead;
}

void Stage::copy_database() {
  close_service();
  std::filesystem::copy_file(folder_ + "/holdfast.sqlite", folder_ + "/copy.sqlite");
  open_service();
}

void Stage::put_copy_back() {
  close_service();
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(folder_ + "/holdfast.sqlite" + suffix);
  std::filesystem::copy_file(folder_ + "/copy.sqlite", folder_ + "/holdfast.sqlite");
  open_service();
  const auto events = store_->records().events("", 0, 100000);
  last_event_ = events.empty() ? 0 : events.back().id;
}

}  // namespace holdfast::scenarios
