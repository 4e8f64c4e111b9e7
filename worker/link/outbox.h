// Faults, events and log lines on their way to the service.
//
// Promises: messages are sent in order, one at a time, and tried for as long as it takes; faults go first. The caller never
// waits. Memory is bounded: when the service is away for long, log lines are dropped first (the oldest, with a line that says
// how many); events beyond their bound are dropped and counted in the log. A message that the service refuses is logged and
// dropped. Each line is in its job's log once, even if an answer is lost and the line is sent again.
// Thread: any for the callers; its own sends.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/protocol/messages.h"
#include "worker/link/service_link.h"

namespace holdfast::worker {

class Outbox {
 public:
  explicit Outbox(ServiceLink& link);
  ~Outbox();  // waits a moment for queued messages to be sent

  void fault(const std::string& job, rendezvous::FaultReport report);
  void event(const std::string& job, const std::string& kind, const std::string& message);
  void log(const std::string& job, rendezvous::LogLine line);
  // Several long messages to one place; `write` makes them on the thread that sends.
  using WriteBodies = std::function<std::vector<std::string>()>;
  void bodies(const std::string& path, WriteBodies write);

 private:
  struct Letter {
    std::string path, body;
    WriteBodies write = nullptr;  // makes letters of their own
  };
  void send_all();
  void send_letter(rendezvous::HttpClient& client, const Letter& letter);
  std::vector<Letter> take_logs();  // with the lock held
  void add(Letter letter, std::deque<Letter>& to);
  bool has_letters() const { return !faults_.empty() || !letters_.empty(); }  // with the lock held

  ServiceLink& link_;
  Interrupt stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, done_ = false;
  std::deque<Letter> faults_, letters_;  // of faults first
  std::string log_job_;
  std::deque<rendezvous::LogLine> lines_;
  int64_t log_batches_ = 0;  // so many were made
  int64_t dropped_letters_ = 0, dropped_lines_ = 0;
  std::thread sender_;
};

}  // namespace holdfast::worker
