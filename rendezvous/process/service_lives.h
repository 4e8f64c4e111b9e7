// One service after another, behind one HTTP server.
//
// A service whose database cannot be written ends, because its memory is then ahead of the database. The next service begins
// from the last commit as soon as the database can be written again, such as when the disk has space. Until then every request
// is answered 503 with the reason, and workers train on, as they do while a service is away. Two requests are still answered:
// /healthz, because the process is healthy and a restart would not repair the disk, and /metrics, which then has
// holdfast_store_writable 0.
// A service whose database another one leads with stands by: it looks several times a second whether it may take the lead, and
// until then answers from the database what can be answered from there (standby/reads.h), and else 503 not_leader, with the
// leader's address in the header Holdfast-Leader.
// Thread: gate() from any; all else from one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "rendezvous/api/service.h"
#include "rendezvous/process/request_counts.h"
#include "rendezvous/standby/standby.h"

namespace holdfast::rendezvous {

class ServiceLives {
 public:
  // Opens the database and makes a service over it. Both live as long as the pointer that it returns. Throws StoreError.
  using Begin = std::function<std::shared_ptr<Service>()>;
  // Makes what works while another service leads; it goes before this one's service begins.
  using StandBy = std::function<std::shared_ptr<Standby>()>;

  // Begins the first service. If the database cannot be written now, or another service leads, it waits; on another failure of
  // the database it throws StoreError. All requests are counted in `counts`.
  ServiceLives(std::shared_ptr<RequestCounts> counts, Begin begin, StandBy stand_by = {});
  explicit ServiceLives(Begin begin) : ServiceLives(std::make_shared<RequestCounts>(), std::move(begin)) {}
  ~ServiceLives();  // ends the present service
  ServiceLives(const ServiceLives&) = delete;

  // The answer to every request before there is such an object.
  static Admission not_begun();
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
  void set_reason(const std::string& why, const std::optional<std::string>& leader = std::nullopt);
  void wait_for(const StoreAway& error);
  void start(std::shared_ptr<Service> service);
  std::shared_ptr<Standby> standby() const;  // null where no other service leads
  void keep(std::shared_ptr<Standby> standby);
  void bury();

  const Begin begin_;
  const StandBy stand_by_;
  const std::shared_ptr<RequestCounts> counts_;
  mutable std::mutex mutex_;           // guards the next four fields
  std::shared_ptr<Service> service_;   // none while the database cannot be written
  std::string why_;                    // why there is no service
  std::optional<std::string> leader_;  // this one stands by for: its address
  std::shared_ptr<Standby> standby_;   // while another service leads
  std::thread owner_;
  std::chrono::steady_clock::time_point began_at_, again_at_, said_at_;
  std::string said_;               // the last reason in the log
  std::chrono::seconds pause_{1};  // before the next service; grows while services fail soon after their start
};

}  // namespace holdfast::rendezvous
