// Keeps this worker known to the service: registers, reports its status, and holds one long-poll open for directives.
//
// Promises: the newest status is posted every heartbeat and at once when more than its step changed; each new directive
// reaches `on_directive`. A service that was away finds the worker again by itself; one that does not know it (404: a new
// database) gets a registration under the same incarnation.
// Thread: three of its own, for the long-poll, the status and the device's load; `on_directive` runs on the first.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "rendezvous/protocol/messages.h"
#include "worker/link/service_link.h"

namespace holdfast::worker {

class RendezvousClient {
 public:
  using OnDirective = std::function<void(const rendezvous::Directive&)>;
  using Load = std::function<rendezvous::DeviceLoad()>;

  // `load` is asked once a heartbeat, by a thread that does nothing else, for it may block; it may be null.
  RendezvousClient(ServiceLink& link, rendezvous::RegisterRequest registration, OnDirective on_directive, Load load = {});
  ~RendezvousClient();  // tries briefly to post the newest status if that was not posted yet, and stops

  void publish(const rendezvous::WorkerStatus& status);

 private:
  void follow_directives();
  bool register_worker();
  bool note_registered(const std::string& body);  // false: stopped
  void poll_once();
  void take_directive(const std::string& body);
  void report_status();
  void read_load();
  void post_status(rendezvous::HttpClient& client, const rendezvous::Heartbeat& heartbeat, std::chrono::milliseconds timeout);
  void note_tag(const std::string& tag);
  void ask_to_register();

  ServiceLink& link_;
  rendezvous::RegisterRequest registration_;
  OnDirective on_directive_;
  Load load_;
  std::string path_;  // "/v1/workers/{id}"
  Interrupt stop_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool registered_ = false, stopping_ = false, urgent_ = false;
  std::chrono::milliseconds heartbeat_{1000};
  rendezvous::WorkerStatus status_;
  rendezvous::DeviceLoad last_load_;
  std::string tag_;     // of the directive held
  int other_tags_ = 0;  // replies in a row that named another tag

  std::unique_ptr<rendezvous::HttpClient> poll_client_;
  std::thread poller_, reporter_, observer_;
};

}  // namespace holdfast::worker
