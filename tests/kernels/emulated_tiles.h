// See emulated_tiles.cpp. Internal: no templates of the standard library (vector/lanes.h).
#pragma once

#include "kernels/cpu/product_shape.h"

namespace holdfast::kernels::testing {

// To be called only on a machine that has AVX-512.
const cpu::ProductLoops& emulated_tile_loops();

}  // namespace holdfast::kernels::testing
