#include "kernels/int4.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/decode_ops.h"
#include "kernels/dtype.h"

namespace holdfast::kernels {

Int4Group to_int4(const float* x, int64_t count) {
  float extreme = 0;  // the first of those of largest magnitude, with its sign
  bool is_finite = true;
  for (int64_t i = 0; i < count; ++i) {
    is_finite = is_finite && std::isfinite(x[i]);
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  const bool is_zero = std::fabs(extreme) < kLeastInt8;
  const BFloat16 scale(!is_finite ? std::numeric_limits<float>::quiet_NaN() : is_zero ? 0.0F : extreme / -8.0F);
  Int4Group group{scale.bits, {}};
  for (int64_t i = 0; i < kInt4Group; ++i) {
    const bool counts = is_finite && !is_zero && i < count;
    const float q = counts ? std::clamp(std::nearbyint(x[i] / static_cast<float>(scale)), -8.0F, 7.0F) : 0.0F;
    const auto four = static_cast<unsigned>(static_cast<int>(q) + 8);
    uint8_t& pair = group.pairs[i % (kInt4Group / 2)];
    pair = static_cast<uint8_t>(i < kInt4Group / 2 ? four : pair | four << 4U);
  }
  return group;
}

void from_int4(float* out, const Int4Group* groups, int64_t count) {
  for (int64_t g = 0; g < count; ++g, out += kInt4Group) {
    BFloat16 scale;
    scale.bits = groups[g].scale;
    for (int64_t j = 0; j < kInt4Group / 2; ++j) {
      const int pair = groups[g].pairs[j];
      out[j] = static_cast<float>((pair & 15) - 8) * static_cast<float>(scale);
      out[j + kInt4Group / 2] = static_cast<float>((pair >> 4) - 8) * static_cast<float>(scale);
    }
  }
}

}  // namespace holdfast::kernels
