// The checksum of a chunk on the ring: XXH3-64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace holdfast::worker {

uint64_t checksum_of(std::span<const std::byte> bytes);

}  // namespace holdfast::worker
