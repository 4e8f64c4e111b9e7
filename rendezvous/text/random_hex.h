// Secrets and names that nobody can guess, as text.
#pragma once

#include <cstddef>
#include <string>

namespace holdfast::rendezvous {

// So many bytes from the kernel's random source, as hex digits: twice as many characters. Throws std::system_error where there
// is no such source. Thread: any.
std::string random_hex(size_t bytes);

}  // namespace holdfast::rendezvous
