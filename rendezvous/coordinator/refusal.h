// A refusal of the coordinator: it says what is wrong with a request, and knows nothing of HTTP.
//
// The API makes an HTTP answer of it (rendezvous/api/answers/problems.h); the simulator and the stories read it directly.
// Thread: any.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

struct Refusal {
  enum class Kind {
    kNotKnown,    // there is no such job or worker
    kWrongState,  // the job or worker exists, and its state does not allow the request
    kStale,       // the sender belongs to an incarnation or a generation that has ended
    kInvalid,     // the request itself is wrong, in any state
  };
  Kind kind = Kind::kInvalid;
  std::string code;    // for programs, and stable: "not_found", "stale_generation", ...
  std::string detail;  // for people
  std::vector<FieldError> errors = {};
};

template <typename T>
using OrRefusal = tl::expected<T, Refusal>;

inline tl::unexpected<Refusal> refuse(Refusal::Kind kind, std::string code, std::string detail) {
  return tl::unexpected(Refusal{kind, std::move(code), std::move(detail)});
}

Refusal no_such_job(const std::string& id);
// One field of a job spec is wrong.
tl::unexpected<Refusal> refuse_field(const std::string& field, const std::string& why);

}  // namespace holdfast::rendezvous
