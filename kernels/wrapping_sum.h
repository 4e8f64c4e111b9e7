// Sums of integers that wrap around: defined for all there are. Of sums that nobody is to have (in a divided state: chunks that
// a rank does not own) the numbers are unspecified, and may be any.
#pragma once

#include <type_traits>

namespace holdfast::kernels {

template <typename Number>
Number wrapping_sum(Number a, Number b) {
  if constexpr (std::is_integral_v<Number>) {
    using Unsigned = std::make_unsigned_t<Number>;
    return static_cast<Number>(static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else {
    return a + b;
  }
}

}  // namespace holdfast::kernels
