// The directive of each worker: derived from its job, never stored.
//
// A directive's tag is kept until the worker is touched, so that a heartbeat's answer costs nothing.
// Thread: the owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/coordinator/registry.h"

namespace holdfast::rendezvous {

class Directives {
 public:
  explicit Directives(Registry& registry) : registry_(registry) {}  // which outlives it

  // The directive of a living worker, unless its tag is `have`: the worker has it already.
  std::optional<Directive> news_for(const std::string& worker, const std::string& have);
  const std::string& tag_of(Worker& worker);
  int64_t made() const { return made_; }  // directives so far, for tests of what a request costs

 private:
  Directive make(const std::string& worker);

  Registry& registry_;
  int64_t made_ = 0;
};

}  // namespace holdfast::rendezvous
