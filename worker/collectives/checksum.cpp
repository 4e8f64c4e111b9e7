// XXH3-64 by the widest instruction set that this processor has (39 GB/s in the cache with AVX-512).
#include "worker/collectives/checksum.h"

#include <xxh_x86dispatch.h>

namespace holdfast::worker {

uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace holdfast::worker
