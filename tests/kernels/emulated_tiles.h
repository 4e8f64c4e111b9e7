// The emulated AMX loops of emulated_tiles.cpp. Like vector/lanes.h, this header includes no templates of the standard library.
#pragma once

#include "kernels/cpu/product_shape.h"

namespace holdfast::kernels::testing {

// Call it only on a machine that has AVX-512.
const cpu::ProductLoops& emulated_tile_loops();

}  // namespace holdfast::kernels::testing
