// Numbers of things in sentences.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::rendezvous {

// "worker" where it is one, "workers" otherwise; `many`: a plural that takes more than an s ("retries").
std::string plural(int64_t count, const std::string& one, const std::string& many = "");
// "1 worker", "3 workers".
std::string counted(int64_t count, const std::string& one, const std::string& many = "");

}  // namespace holdfast::rendezvous
