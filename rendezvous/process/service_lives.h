// One service after another, behind one HTTP server.
//
// A service whose database cannot be written ends, because what it knows is then ahead of what it could promise. The next one
// begins from the last commit as soon as the database takes a write again: when there is space on its disk. Until then every
// request is answered 503 with the reason, and workers train on, as they do while a service is away. Two requests are answered
// all the same: /healthz, because the process is well and a restart mends no disk, and /metrics, which then has
// holdfast_store_writable 0.
// Thread: gate() from any; the rest from one.
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
  // Makes a service over a database that it opens; both live as long as what it returns. Throws StoreError.
  using Begin = std::function<std::shared_ptr<Service>()>;

  // Begins the first one. Throws StoreError: a service that never was does not wait for better times, but for space on its
  // disk.
  explicit ServiceLives(Begin begin);
  ~ServiceLives();  // ends the present one
  ServiceLives(const ServiceLives&) = delete;

  // The HTTP server's gate: sends a request to the service that is there now. It does not keep that service alive: a request
  // whose body arrives when the service has ended is answered 503.
  Admission gate(const HttpRequest& head);

  // To be called now and then: begins the next service where the last one failed. False: it failed for another reason than
  // its database, and there is none.
  bool tend();
  void end();

 private:
  std::shared_ptr<Service> present() const;
  HttpResponse absence() const;
  // Of requests that are answered without a service that works, while there is none.
  std::optional<HttpResponse> own_answer(const HttpRequest& request) const;
  void set_reason(const std::string& why);
  void start(std::shared_ptr<Service> service);
  void bury();

  Begin begin_;
  mutable std::mutex mutex_;          // of the next two
  std::shared_ptr<Service> service_;  // none while the database cannot be written
  std::string why_;                   // not
  std::thread owner_;
  std::chrono::steady_clock::time_point began_at_, again_at_, said_at_;
  std::chrono::seconds pause_{1};  // longer where one after the other fails soon after its start
};

}  // namespace holdfast::rendezvous
