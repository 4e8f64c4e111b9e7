// Which worker should belong to which job, and why a job waits.
//
// Promises: pure; stable — a worker is moved only when a queued job cannot begin without it, and then only one that is
// above its job's nominal number or that waits in a job which cannot begin. Nobody is taken below min_nodes.
// Order: jobs by priority, then age. First min_nodes for each, then the nominal number, then idle workers up to the
// maximum; what is left waits with the jobs that lack workers, so that it is prepared when the last one comes. A worker that
// is held back (flapping.h) goes to nobody but a job that reaches its minimum with it and not without it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace holdfast::rendezvous {

struct SchedulableJob {
  std::string id;
  int64_t number = 0;  // age: lower is older
  int64_t priority = 0;
  int64_t min_nodes = 1, nodes = 1, max_nodes = 1;
  bool training = false;                       // has a generation that runs or is about to again
  std::vector<std::string> workers;            // that it has and keeps: those to be taken last come first
  std::vector<std::string> holders;            // of these, the ones whose memory is worth keeping
  std::map<std::string, std::string> refused;  // worker -> reason
  std::vector<std::string> in_the_way;         // of its workers, those that others of them do not reach
};

struct SchedulableWorker {
  enum class Availability { kFree, kComing, kTaken };  // coming: was taken back or freed, and is not idle yet
  std::string id;
  Availability availability = Availability::kFree;
  std::string last_job;    // it goes back there when it is of use
  bool held_back = false;  // for jobs that cannot reach their minimum without it, and for no others
};

struct Assignment {
  std::string worker, job;
};
struct TakenBack {
  std::string worker, job, reason;
};
struct Plan {
  std::vector<Assignment> assignments;
  std::vector<TakenBack> taken_back;
  std::map<std::string, std::string> waiting;  // job -> why it cannot begin
};

Plan schedule(std::vector<SchedulableJob> jobs, const std::vector<SchedulableWorker>& workers);

}  // namespace holdfast::rendezvous
