// The scheduler: which worker should belong to which job, and how many workers a waiting job lacks.
//
// Promises: pure; the same question has the same answer. The order of jobs is by priority, then age. In that order
//   1. each job is brought to its min_nodes, all or nothing: from free workers; then from what other jobs can spare; then, for
//      want of these, by preempting jobs of lower priority, the lowest and youngest first, and none that would not help;
//   2. free workers bring each job that can train to its nominal number;
//   3. workers that are left are dealt as extras: to the highest priority that has room, and among jobs of one priority each to
//   the job
//      with the fewest extras, the older of two alike;
//   4. workers that are left then wait with jobs that lack workers, so that they are prepared when the last one comes;
//   5. when nobody is on the way, extras are moved to where a deal from nothing would put them: to jobs below their nominal
//      number, to higher priorities, and among one priority from a job to one that has at least two fewer.
// A job can spare its workers above min_nodes to a job of higher priority, and those above its nominal number to others. While
// it waits itself, it can spare every worker but those whose memory is worth keeping, unless it comes first.
// Nobody is preempted by a job of the same or of a lower priority, nor by one that could not begin with all that it would get.
// A job that trained and lost workers asks for that only when they are not back after kBackMs: most are.
// Nobody starves among equals: a job that has waited for kPatienceMs is not overtaken any more. Workers that come free and fit
// it are kept for it, and no younger job of its priority or a lower one begins with them; but those of higher priority that
// train have their nominal number first. (A job can wait for as long as jobs of higher priority keep coming: that is what
// priority means.)
// A job whose workers must be alike gets workers of one kind alone: the kind with which it can begin with the least
// disturbance, and of several such kinds the one with the most workers. A worker that is held back (flapping.h) goes to nobody
// but a job that reaches its minimum with it and not without it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace holdfast::rendezvous {

inline constexpr int64_t kPatienceMs = 10 * 60'000;
inline constexpr int64_t kBackMs = 15'000;

using WorkerSet = std::shared_ptr<const std::set<std::string>>;  // shared by many jobs; null: nobody

struct SchedulableJob {
  std::string id;
  int64_t number = 0;  // age: lower is older
  int64_t priority = 0;
  int64_t min_nodes = 1, nodes = 1, max_nodes = 1;
  bool training = false;                            // has a generation that runs or is about to again
  std::vector<std::string> workers = {};            // that it has and keeps: those to be taken last come first
  std::vector<std::string> holders = {};            // of these, the ones whose memory is worth keeping
  std::map<std::string, std::string> refused = {};  // worker -> reason
  std::vector<std::string> in_the_way = {};         // of its workers, those that others of them do not reach
  std::set<std::string> doubtful = {};  // refused in an earlier life, or a while ago: nobody is disturbed to get one of these
  WorkerSet unfit = {};                 // workers that do not satisfy what it requires
  WorkerSet unlike = {};                // workers whose numerics are not its own: doubtful, too
  bool preemptible = false;             // can give up all its workers and come back from a checkpoint
  bool changing = false;                // some of its workers do not take part yet: its extras stay for now
  bool alike = false;                   // trains only with workers of the same numerics, whichever
  bool begun = false;                   // has had a generation
  std::optional<int64_t> waits_since_ms = {};  // since when it lacks workers to begin
};

struct SchedulableWorker {
  enum class Availability { kFree, kComing, kTaken };  // coming: was taken back or freed, and is not idle yet
  std::string id;
  Availability availability = Availability::kFree;
  std::string last_job;    // it goes back there when it is of use
  bool held_back = false;  // for jobs that cannot reach their minimum without it, and for no others
  std::string numerics = {};
};

struct Assignment {
  std::string worker, job;
};
struct TakenBack {
  std::string worker, job, reason;
  std::string by = {};  // the job that needs it to begin, if that is why
};
struct Preemption {
  std::string job, by;
  int64_t priority = 0;  // of `by`
};
// Of a job that cannot begin: how many workers it needs and has, and how many are being freed for it.
struct Shortage {
  int64_t needed = 0, there = 0, on_the_way = 0;
  std::map<std::string, std::string> refused = {};  // workers that it cannot have, and why
};
struct Plan {
  std::vector<Assignment> assignments;
  std::vector<TakenBack> taken_back;
  std::vector<Preemption> preemptions;
  std::map<std::string, Shortage> waiting;  // by job
};

// A plan that breaks one of its promises ends the process (plan_check.h).
Plan schedule(const std::vector<SchedulableJob>& jobs, const std::vector<SchedulableWorker>& workers, int64_t now_ms);

// "waiting for 2 more workers: 3 needed, 1 there; 1 is on its way"
std::string in_words(const Shortage& shortage);

}  // namespace holdfast::rendezvous
