// One service after another, behind one HTTP server.
//
// A service whose database cannot be written ends, because its memory is then ahead of the database. The next service begins
// from the last commit as soon as the database can be written again, such as when the disk has space. Until then every request
// is answered 503 with the reason, and workers train on, as they do while a service is away. Two requests are still answered:
// /healthz, because the process is healthy and a restart would not repair the disk, and /metrics, which then has
// holdfast_store_writable 0.
// Thread: gate() from any; all else from one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "rendezvous/api/service.h"

namespace holdfast::rendezvous {

class ServiceLives {
 public:
  // Opens the database and makes a service over it. Both live as long as the pointer that it returns. Throws StoreError.
  using Begin = std::function<std::shared_ptr<Service>()>;

  // Begins the first service. If its disk is full, it waits for space; on another failure of the database it throws StoreError.
  explicit ServiceLives(Begin begin);
  ~ServiceLives();  // ends the present service
  ServiceLives(const ServiceLives&) = delete;

  // The HTTP server's gate: sends a request to the present service. It does not keep that service alive: if the service ends
  // before the request's body has arrived, the request is answered 503.
  Admission gate(const HttpRequest& head);

  // Begins the next service after the last one failed; call it several times a second. False: the service failed for a reason
  // other than its database, and no other will begin.
  bool tend();
  void end();

 private:
  std::shared_ptr<Service> present() const;
  HttpResponse absence() const;
  // The answer to /healthz and /metrics while no service works; nothing for other requests, and while a service works.
  std::optional<HttpResponse> own_answer(const HttpRequest& request) const;
  void set_reason(const std::string& why);
  void start(std::shared_ptr<Service> service);
  void bury();

  Begin begin_;
  mutable std::mutex mutex_;          // guards the next two fields
  std::shared_ptr<Service> service_;  // none while the database cannot be written
  std::string why_;                   // why there is no service
  std::thread owner_;
  std::chrono::steady_clock::time_point began_at_, again_at_, said_at_;
  std::chrono::seconds pause_{1};  // before the next service; grows while services fail soon after their start
};

}  // namespace holdfast::rendezvous
