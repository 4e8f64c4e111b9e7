// The loops for AMX with emulated tile instructions. So machines without the units test packing, edges and layouts, too. Needs
// AVX-512.
#include "tests/kernels/emulated_tiles.h"

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace {

struct TileRegister {
  unsigned char row[16][64];
};
thread_local TileRegister registers[8];

float widened(const unsigned char* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

void load_tile(int tile, const void* from, size_t stride) {
  for (size_t r = 0; r < 16; ++r) std::memcpy(registers[tile].row[r], static_cast<const char*>(from) + r * stride, 64);
}
void store_tile(int tile, void* to, size_t stride) {
  for (size_t r = 0; r < 16; ++r) std::memcpy(static_cast<char*>(to) + r * stride, registers[tile].row[r], 64);
}
// TDPBF16PS: every pair of k, its even element first.
void multiply_tiles(int sums, int a, int b) {
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      float sum;
      std::memcpy(&sum, registers[sums].row[m] + 4 * n, sizeof sum);
      for (int p = 0; p < 16; ++p) {
        for (int half = 0; half < 4; half += 2) {
          sum += widened(registers[a].row[m] + 4 * p + half) * widened(registers[b].row[p] + 4 * n + half);
        }
      }
      std::memcpy(registers[sums].row[m] + 4 * n, &sum, sizeof sum);
    }
  }
}

}  // namespace

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadd(tile, from, stride) load_tile(tile, from, stride)
#define _tile_stored(tile, to, stride) store_tile(tile, to, stride)
#define _tile_zero(tile) std::memset(&registers[tile], 0, sizeof(TileRegister))
#define _tile_dpbf16ps(sums, a, b) multiply_tiles(sums, a, b)
#define _tile_loadconfig(configuration) static_cast<void>(configuration)
#define _tile_release() static_cast<void>(0)
#define amx amx_emulated                // another name than the real loops have
#include "kernels/cpu/amx/product.cpp"  // NOLINT(bugprone-suspicious-include)
#undef amx

namespace holdfast::kernels::testing {

const cpu::ProductLoops& emulated_tile_loops() {
  return cpu::amx_emulated::product_loops();
}

}  // namespace holdfast::kernels::testing
