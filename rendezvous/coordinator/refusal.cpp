#include "rendezvous/coordinator/refusal.h"

#include <fmt/format.h>

namespace holdfast::rendezvous {

Refusal no_such_job(const std::string& id) {
  return {Refusal::Kind::kNotKnown, "not_found", fmt::format("there is no job {}; GET /v1/jobs lists them", id)};
}

tl::unexpected<Refusal> refuse_field(const std::string& field, const std::string& why) {
  return tl::unexpected(Refusal{Refusal::Kind::kInvalid, "invalid_spec", fmt::format("{}: {}", field, why), {{field, why}}});
}

}  // namespace holdfast::rendezvous
