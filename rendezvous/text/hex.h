// Bytes as hex digits.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace holdfast::rendezvous {

// Two lower-case digits for each byte, in the order of the bytes.
std::string hex(std::span<const std::byte> bytes);

}  // namespace holdfast::rendezvous
