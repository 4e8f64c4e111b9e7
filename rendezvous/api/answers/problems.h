// Refusals in the form in which they leave the service (RFC 9457).
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "rendezvous/coordinator/refusal.h"
#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

template <typename T>
using Outcome = tl::expected<T, Problem>;

// `code` is for programs and stable, `detail` for people. The title follows from the status.
Problem problem(int status, const std::string& code, const std::string& detail);
// 400 that names one field or query parameter; "": the whole.
Problem bad_field(const std::string& field, const std::string& message, const std::string& code = "bad_request");
// The coordinator's refusal with the status of its kind.
Problem problem_of(const Refusal& refusal);

}  // namespace holdfast::rendezvous
