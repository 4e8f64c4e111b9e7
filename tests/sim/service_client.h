// How a process keeps in touch with the service: registration, statuses, one poll for directives, and messages about its job.
//
// Stands for worker/link/rendezvous_client.cpp and worker/link/service_link.cpp, with the same rules: the newest status every
// heartbeat and at each change, two tags that know better than the poll end it, a service that does not know this life gets
// a registration, and an answer that says this life is over ends the process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/sim/service_process.h"
#include "tests/sim/surroundings.h"

namespace holdfast::sim {

class Process;

class ServiceClient {
 public:
  ServiceClient(Surroundings& around, Process& process) : around_(around), process_(process) {}

  void start();
  void publish(const rendezvous::WorkerStatus& status);
  // Faults: tried for as long as it takes, in order.
  void report_fault(const std::string& job, rendezvous::FaultReport report);
  // Once. Answers that end the process end it here.
  void ask(Request request, int64_t timeout_ms, const OnResponse& on_response, bool about_worker);

  static bool may_pass(const Response& response) { return response.unreachable; }

 private:
  void enroll();
  void poll();
  void heed(const Response& response);
  void heartbeat();
  void post_status();
  void note_tag(const std::string& tag);
  void enroll_again();
  void send_letters();

  Surroundings& around_;
  Process& process_;
  bool registered_ = false, urgent_ = false, posting_ = false, enrolling_ = false;
  rendezvous::WorkerStatus status_;
  std::string tag_;  // of the directive held
  int other_tags_ = 0;
  int64_t polls_ = 0;  // the number of the newest poll: answers to older ones are of a connection that was given up
  std::deque<JobMessage> letters_;
  bool sending_ = false;
};

}  // namespace holdfast::sim
