// Blocks of 32 x 32 of c in four tile registers, two tiles of a and two of b beside them. k is taken in blocks whose panel of b
// stays in the first-level cache while a streams by from the second; every block of k starts from zero and is added to c once.
#include "kernels/cpu/amx/product.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/amx/packing.h"

namespace holdfast::kernels::cpu::amx {
namespace {

constexpr int64_t kSide = 2 * kTileSide;                      // of a block of c
constexpr int64_t kDepthBFloat16 = 512, kDepthFloat32 = 128;  // of k in a block

struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

int64_t padded(int64_t extent) {
  return (extent + kSide - 1) / kSide * kSide;
}

int64_t block_depth(const ProductShape& shape) {
  const int64_t most = shape.bfloat16 ? kDepthBFloat16 : kDepthFloat32;
  const int64_t blocks = (shape.k + most - 1) / most;
  return ((shape.k + blocks - 1) / blocks + kTileDepth - 1) / kTileDepth * kTileDepth;
}

// Of a block of k of an operand with so many lines.
size_t block_bytes(const ProductShape& shape, int64_t lines) {
  return static_cast<size_t>(padded(lines) * block_depth(shape)) * (shape.bfloat16 ? 2 : 6);
}

int64_t blocks_of_depth(const ProductShape& shape) {
  return (shape.k + block_depth(shape) - 1) / block_depth(shape);
}

// How much of k there is from `k` on in its block.
int64_t depth_from(const ProductShape& shape, int64_t k) {
  const int64_t depth = block_depth(shape);
  return shape.k - k < depth ? shape.k - k : depth;
}

inline void load_a(const char* a, size_t row_of_tiles) {
  _tile_loadd(4, a, 64);
  _tile_loadd(5, a + row_of_tiles, 64);
}
inline void load_b(const char* b, size_t row_of_tiles) {
  _tile_loadd(6, b, 64);
  _tile_loadd(7, b + row_of_tiles, 64);
}
inline void multiply() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// One block of c over `tiles` tiles of k, into `out` (32 rows of `stride` floats). a, b: the first of two rows of tiles.
template <int kParts>
void block(float* out, int64_t stride, const char* a, const char* b, int64_t tiles) {
  const size_t row_of_tiles = static_cast<size_t>(tiles) * kParts * kTileBytes;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if constexpr (kParts == 3) {
    for (int64_t t = 0; t < tiles; ++t) {
      const char *at = a + static_cast<size_t>(t) * 3 * kTileBytes, *bt = b + static_cast<size_t>(t) * 3 * kTileBytes;
      const auto part = [](const char* of, int index) { return of + static_cast<size_t>(index) * kTileBytes; };
      load_a(part(at, 0), row_of_tiles);
      load_b(part(bt, 2), row_of_tiles);
      multiply();
      load_b(part(bt, 1), row_of_tiles);
      multiply();
      load_a(part(at, 1), row_of_tiles);
      multiply();
      load_b(part(bt, 0), row_of_tiles);
      multiply();
      load_a(part(at, 2), row_of_tiles);
      multiply();
    }
  }
  for (int64_t t = 0; t < tiles; ++t) {
    load_a(a + static_cast<size_t>(t) * kParts * kTileBytes, row_of_tiles);
    load_b(b + static_cast<size_t>(t) * kParts * kTileBytes, row_of_tiles);
    multiply();
  }
  const size_t bytes = static_cast<size_t>(stride) * sizeof(float);
  _tile_stored(0, out, bytes);
  _tile_stored(1, out + kTileSide, bytes);
  _tile_stored(2, out + kTileSide * stride, bytes);
  _tile_stored(3, out + kTileSide * (stride + 1), bytes);
}

// The part of a block that c has, stored or added.
void finish(float* c, int64_t c_width, const float* from, int64_t rows, int64_t columns, bool add) {
  const Part parts[2] = {lanes_of(columns), lanes_of(columns - kTileSide)};
  for (int64_t r = 0; r < rows; ++r) {
    for (int half = 0; half < 2; ++half) {
      float* to = c + r * c_width + half * kTileSide;
      const Floats x = load(from + r * kSide + half * kTileSide, Whole{});
      store(to, add ? load(to, parts[half]) + x : x, parts[half]);
    }
  }
}

int parts_of(const ProductShape& shape) {
  return shape.bfloat16 ? BFloat16Cells::kParts : ThreePartCells::kParts;
}

SquareForm square(const ProductShape& shape) {
  return {kTileSide, kTileDepth, static_cast<size_t>(parts_of(shape)) * kTileBytes};
}

size_t square_at(const ProductShape& shape, int64_t column, int64_t k) {
  const int64_t before = k / block_depth(shape), in_block = k - before * block_depth(shape);
  const int64_t tiles = (depth_from(shape, k - in_block) + kTileDepth - 1) / kTileDepth;
  return static_cast<size_t>(before) * block_bytes(shape, shape.n) +
         static_cast<size_t>(column / kTileSide * tiles + in_block / kTileDepth) * square(shape).bytes;
}

static_assert(kPackedColumns % kSide == 0);

template <typename Cells>
void pack_blocks(const ProductShape& shape, const void* memory, Piece piece, char* packed) {
  const auto* b = static_cast<const typename Cells::Element*>(memory) + piece.first * shape.b.column;
  const int64_t blocks = blocks_of_depth(shape);
  for (int64_t block = blocks * piece.part / piece.parts; block < blocks * (piece.part + 1) / piece.parts; ++block) {
    const int64_t k = block * block_depth(shape);
    pack_lines<Cells>(packed + square_at(shape, piece.first, k), b + k * shape.b.row, shape.b.column, shape.b.row, piece.count,
                      padded(piece.count), depth_from(shape, k), true);
  }
}

template <typename Cells>
void pack_int4_blocks(const ProductShape& shape, const Int4Columns& b, char* packed) {
  for (int64_t k = 0; k < shape.k; k += block_depth(shape), packed += block_bytes(shape, shape.n))
    pack_int4_lines<Cells>(packed, b, padded(shape.n), k, depth_from(shape, k));
}

template <typename Cells>
void multiply_blocks(const ProductShape& shape, const void* memory, const char* packed_b, float* c, char* packed_a) {
  constexpr int kParts = Cells::kParts;
  const auto* a = static_cast<const typename Cells::Element*>(memory);
  alignas(64) float finished[kSide * kSide];
  for (int64_t k = 0; k < shape.k; k += block_depth(shape), packed_b += block_bytes(shape, shape.n)) {
    const int64_t here = depth_from(shape, k), tiles = (here + kTileDepth - 1) / kTileDepth;
    pack_lines<Cells>(packed_a, a + k * shape.a.column, shape.a.row, shape.a.column, shape.m, padded(shape.m), here, false);
    asm volatile("" : : : "memory");  // gcc 12's _tile_loadd does not say that it reads memory: all is to be there before it
    const bool add = shape.add || k > 0;
    const size_t pair_bytes = static_cast<size_t>(2 * tiles) * kParts * kTileBytes;
    for (int64_t j = 0; j < shape.n; j += kSide) {
      for (int64_t i = 0; i < shape.m; i += kSide) {
        const char* at = packed_a + static_cast<size_t>(i / kSide) * pair_bytes;
        const char* bt = packed_b + static_cast<size_t>(j / kSide) * pair_bytes;
        float* to = c + i * shape.c_width + j;
        if (!add && i + kSide <= shape.m && j + kSide <= shape.n) {
          block<kParts>(to, shape.c_width, at, bt, tiles);
          continue;
        }
        block<kParts>(finished, kSide, at, bt, tiles);
        finish(to, shape.c_width, finished, shape.m - i < kSide ? shape.m - i : kSide, shape.n - j, add);
      }
    }
  }
}

bool has_units() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 22 & 1u) != 0 && (d >> 24 & 1u) != 0;
}

// Linux gives the tile registers to processes that ask (arch_prctl(2), since 5.16).
bool ask_for_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

size_t packed_bytes(const ProductShape& shape) {
  return static_cast<size_t>(blocks_of_depth(shape)) * block_bytes(shape, shape.n);
}

void pack(const ProductShape& shape, const void* b, Piece piece, void* packed) {
  (shape.bfloat16 ? pack_blocks<BFloat16Cells> : pack_blocks<ThreePartCells>)(shape, b, piece, static_cast<char*>(packed));
}

void pack_int4(const ProductShape& shape, const Int4Columns& b, void* packed) {
  (shape.bfloat16 ? pack_int4_blocks<BFloat16Cells> : pack_int4_blocks<ThreePartCells>)(shape, b, static_cast<char*>(packed));
}

size_t scratch_bytes(const ProductShape& shape) {
  return block_bytes(shape, shape.m);
}

void run(const ProductShape& shape, const void* a, const void* packed_b, float* c, void* scratch) {
  const TileConfiguration configuration;
  // gcc 12's _tile_loadconfig says that it reads 8 of the 64 bytes: all of them are to be there before it.
  asm volatile("" : : "m"(configuration) : "memory");
  _tile_loadconfig(&configuration);
  (shape.bfloat16 ? multiply_blocks<BFloat16Cells> : multiply_blocks<ThreePartCells>)(shape, a,
                                                                                      static_cast<const char*>(packed_b), c,
                                                                                      static_cast<char*>(scratch));
  _tile_release();
}

}  // namespace

bool usable() {
  static const bool answer = has_units() && ask_for_tiles();
  return answer;
}

const ProductLoops& product_loops() {
  static constexpr ProductLoops loops = {packed_bytes, pack, pack_int4, square, square_at, scratch_bytes, run};
  return loops;
}

}  // namespace holdfast::kernels::cpu::amx
