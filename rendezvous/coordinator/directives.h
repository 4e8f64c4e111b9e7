// The directive of each worker: derived from its job and the profile that is recorded of it, never stored.
//
// A directive's tag is kept until the worker is touched, so that the answer to a heartbeat needs no new directive.
// Thread: the owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/coordinator/registry.h"
#include "rendezvous/profile/book.h"

namespace holdfast::rendezvous {

class Directives {
 public:
  // Both arguments outlive this object.
  Directives(Registry& registry, const ProfileBook& profiles) : registry_(registry), profiles_(profiles) {}

  // The directive of a live worker; nothing if its tag is `have`, because the worker has it already.
  std::optional<Directive> news_for(const std::string& worker, const std::string& have);
  const std::string& tag_of(Worker& worker);
  int64_t made() const { return made_; }  // directives so far, for tests of a request's cost

 private:
  Directive make(const std::string& worker);

  Registry& registry_;
  const ProfileBook& profiles_;
  int64_t made_ = 0;
};

}  // namespace holdfast::rendezvous
