// Dropout, plain: each element times its factor (kernels/dropout.h).
#pragma once

#include <cstdint>

#include "kernels/dropout.h"

namespace holdfast::kernels::ref {

template <typename Element>
void drop(Element* x, const Dropout& dropout, uint64_t pass, int64_t N, int64_t C) {
  for (int64_t n = 0; n < N; ++n) {
    const uint64_t key = dropout_row(pass, dropout.site, n);
    for (int64_t c = 0; c < C; ++c)
      x[n * C + c] = static_cast<Element>(static_cast<float>(x[n * C + c]) * dropout_factor(dropout, key, c));
  }
}

}  // namespace holdfast::kernels::ref
