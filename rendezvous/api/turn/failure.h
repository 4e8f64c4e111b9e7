// How a service that stops by itself answers those whom it did not come to.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {

struct ServiceFailure {
  std::string why;
  bool of_store = false;  // the database could not be read or written; false: the service itself is at fault
  bool passes = false;    // of the store: its server is away, or another service leads
};

// The failure that a service stopped at. Set once, by the service's owner; read by any thread. Requests that end after their
// service still ask for it.
class FailureNote {
 public:
  void set(ServiceFailure failure);
  std::optional<ServiceFailure> get() const;
  // 503: the failure where there is one, else `without_failure`.
  HttpResponse answer_instead(const std::string& without_failure) const;

 private:
  mutable std::mutex mutex_;
  std::optional<ServiceFailure> failure_;
};

// A reply that answers 503 by itself when everybody who had it dropped it: a service that stops drops the requests that it has
// not begun.
Reply guarded(Reply reply, std::shared_ptr<const FailureNote> failure);

}  // namespace holdfast::rendezvous
