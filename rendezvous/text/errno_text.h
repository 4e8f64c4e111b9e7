// Errors of the system in words.
#pragma once

#include <string>

namespace holdfast::rendezvous {

// The system's words for an errno: "No such file or directory".
std::string describe_errno(int error);

}  // namespace holdfast::rendezvous
