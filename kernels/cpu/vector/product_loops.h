// Products by fused multiply-adds (Goto, van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication"): blocks of
// kRows x kColumns of c stay in registers, where cells of a are broadcast and vectors of b beside them are read. k is taken in
// blocks whose panel of b stays in the first-level cache while a streams by from the second; every block of k starts from
// zero and is added to c once. Internal linkage, no templates of the standard library: see lanes.h.
//
// b is packed as squares (squares.h). a is read where it is, but where its rows are the contiguous index, or a cell would reach
// beyond its end, it is copied first, kCopiedRows rows beside each other; and so it is where blocks are as narrow as AVX2's and
// there are some of them: rows a power of two apart share few sets of the first-level cache, and each is read twice as often.
//
// Arithmetic: what sources give that include this: `Cells`, and
//   static Floats multiply_add(Ints a, Ints b, Floats sum);  // cell by cell
// Stored: what a packed b has for a cell: the cell itself; or, for cells that are floats, a narrower type that has their
// values, and is widened as it is read: half the bytes where these are what a product takes its time for.
#pragma once

#include "kernels/cpu/product_shape.h"
#include "kernels/cpu/vector/squares.h"

namespace holdfast::kernels::cpu {
namespace {

// 24 of the 32 registers of AVX-512 are sums, and 12 of the 16 of AVX2.
constexpr int64_t kRows = 6, kVectors = kWidth == 16 ? 4 : 2;
constexpr int64_t kColumns = kVectors * kWidth;
static_assert(kPackedColumns % kColumns == 0);
constexpr int64_t kMostCells = 128;   // of k in a block
constexpr int64_t kCellsAtOnce = 16;  // of those, between two looks ahead
constexpr int64_t kCopiedRows = 48;   // of a, beside each other where it is copied: whole blocks, and whole vectors
constexpr int64_t kCellBytes = 4;
constexpr int64_t kLineBytes = 64;                                          // of a cache
constexpr int64_t kWorthCopying = kWidth == 16 ? INT64_MAX : 4 * kColumns;  // columns of c, from which on a is copied

inline Ints load_cells(const int32_t* p) {
  return load(p, Whole{});
}
inline Ints load_cells(const Bf16* p) {
  return bits_of(load(p, Whole{}));
}
inline Ints load_cells(const Fp16* p) {
  return bits_of(load(p, Whole{}));
}

inline int64_t up_to(int64_t unit, int64_t extent) {
  return (extent + unit - 1) / unit * unit;
}

template <typename Arithmetic, typename Stored = int32_t>
struct Blocked {
  using Cells = typename Arithmetic::Cells;
  using Element = typename Cells::Element;
  static constexpr int64_t kPerCell = Cells::kPerCell;
  static constexpr bool kIsWhole = sizeof(Stored) == kCellBytes;                          // Stored is the cell itself
  static constexpr int64_t kVectorBytes = kWidth * static_cast<int64_t>(sizeof(Stored));  // of a packed b

  static int64_t block_depth(const ProductShape& shape) {
    const int64_t most = kMostCells * kPerCell;
    const int64_t blocks = (shape.k + most - 1) / most;
    return up_to(kWidth * kPerCell, (shape.k + blocks - 1) / blocks);
  }
  static int64_t depth_from(const ProductShape& shape, int64_t k) {
    const int64_t depth = block_depth(shape);
    return shape.k - k < depth ? shape.k - k : depth;
  }
  // Of a block of k of an operand with so many lines.
  static size_t block_bytes(const ProductShape& shape, int64_t lines, int64_t cell_bytes) {
    return static_cast<size_t>(lines * (block_depth(shape) / kPerCell) * cell_bytes);
  }

  static size_t packed_bytes(const ProductShape& shape) {
    const int64_t blocks = (shape.k + block_depth(shape) - 1) / block_depth(shape);
    return static_cast<size_t>(blocks) * block_bytes(shape, up_to(kColumns, shape.n), sizeof(Stored));
  }
  static void pack(const ProductShape& shape, const void* b, Piece piece, void* packed) {
    const auto* from = static_cast<const Element*>(b) + piece.first * shape.b.column;
    const int64_t padded = up_to(kColumns, piece.count);
    const int64_t blocks = (shape.k + block_depth(shape) - 1) / block_depth(shape);
    for (int64_t block = blocks * piece.part / piece.parts; block < blocks * (piece.part + 1) / piece.parts; ++block) {
      const int64_t k = block * block_depth(shape), depth = depth_from(shape, k);
      char* to = static_cast<char*>(packed) + square_at(shape, piece.first, k);
      if constexpr (kIsWhole) {
        pack_lines<Cells>(to, from + k * shape.b.row, shape.b.column, shape.b.row, piece.count, padded, depth, true);
      } else {
        for (int64_t line = 0; line < padded; line += kWidth) {
          alignas(64) char wide[kWidth * kMostCells * kCellBytes];
          const int64_t left = piece.count - line, lines = left < 0 ? 0 : left < kWidth ? left : kWidth;
          char* const end = pack_lines<Cells>(wide, from + k * shape.b.row + line * shape.b.column, shape.b.column, shape.b.row,
                                              lines, kWidth, depth, true);
          for (const char* at = wide; at != end; at += sizeof(Ints), to += kVectorBytes) {
            store(reinterpret_cast<Stored*>(to), load(reinterpret_cast<const float*>(at), Whole{}), Whole{});
          }
        }
      }
    }
  }
  static void pack_int4(const ProductShape& shape, const Int4Columns& b, void* packed) {
    auto* to = static_cast<char*>(packed);
    for (int64_t k = 0; k < shape.k; k += block_depth(shape))
      to = pack_int4_lines<Cells>(to, b, up_to(kColumns, shape.n), k, depth_from(shape, k));
  }

  static SquareForm square(const ProductShape&) {
    return {kWidth, kWidth * kPerCell, static_cast<size_t>(kWidth * kVectorBytes)};
  }
  static size_t square_at(const ProductShape& shape, int64_t column, int64_t k) {
    const int64_t before = k / block_depth(shape), in_block = k - before * block_depth(shape);
    const int64_t cells = up_to(kWidth, (depth_from(shape, k - in_block) + kPerCell - 1) / kPerCell);
    return static_cast<size_t>(before) * block_bytes(shape, up_to(kColumns, shape.n), sizeof(Stored)) +
           static_cast<size_t>((column * cells + in_block / kPerCell * kWidth) * static_cast<int64_t>(sizeof(Stored)));
  }

  static size_t scratch_bytes(const ProductShape& shape) { return block_bytes(shape, up_to(kCopiedRows, shape.m), kCellBytes); }

  // Rows of a, [row / kCopiedRows][cell][row % kCopiedRows], square by square. A group has whole squares of cells, zero beyond
  // `depth`, and is as long as they are.
  static void copy_rows(char* to, const Element* a, const Layout& layout, int64_t rows, int64_t depth) {
    const bool along = layout.column == 1;
    for (int64_t group = 0; group < rows; group += kCopiedRows) {
      const int64_t end = rows - group < kCopiedRows ? rows : group + kCopiedRows;
      for (int64_t k = 0; k < depth; k += kWidth * kPerCell, to += kWidth * kCopiedRows * kCellBytes) {
        for (int64_t row = group; row < end; row += kWidth) {
          const Element* from = a + row * layout.row + k * layout.column;
          Square square;
          if (along) {
            Cells::read_along(&square, from, layout.row, rows - row, depth - k);
            transpose(square);
          } else {
            Cells::read_across(&square, from, layout.column, rows - row, depth - k);
          }
          char* at = to + (row - group) * kCellBytes;
          for (int64_t i = 0; i < kWidth; ++i, at += kCopiedRows * kCellBytes) store(at, square.vector[i]);
        }
      }
    }
  }
  // The first cell of row i of what copy_rows made.
  static const char* copied_row(const void* copied, int64_t i, int64_t cells) {
    return static_cast<const char*>(copied) +
           (i / kCopiedRows * up_to(kWidth, cells) * kCopiedRows + i % kCopiedRows) * kCellBytes;
  }

  // Memory that is wanted soon.
  struct Soon {
    const char* first;
    int64_t bytes;
  };

  // One block of c: `rows` of `columns`, stored or added. a: the first cell of row 0; b: the first vector of kVectors rows of
  // squares, `line_bytes` apart. kHere: `rows` or more, for which there are registers; no row's sum hangs on it. Memory that
  // the sums do not need yet, this block of c and `soon`, comes into the caches while they are made: of `soon` a line with
  // every cell, the same one again and again where there are fewer lines than cells (kIsSparse), else a part every kCellsAtOnce
  // cells, as more lines at once than a core can wait for would hold up the sums.
  template <int64_t kHere, bool kIsSparse>
  static void block(float* c, int64_t c_width, int64_t rows, int64_t columns, bool add, const char* a, int64_t row_bytes,
                    int64_t step_bytes, const char* b, int64_t line_bytes, int64_t cells, Soon soon) {
    // Row after row, for the compiler would make vectors of them, and slowly.
    const char* row[kHere] = {a};
    float* line[kHere] = {c};
#pragma GCC unroll 6
    for (int64_t r = 1; r < kHere; ++r) {
      row[r] = row[r - 1] + (r < rows ? row_bytes : 0);
      line[r] = line[r - 1] + (r < rows ? c_width : 0);
    }
    if constexpr (kHere > 2) {
#pragma GCC unroll 6
      for (int64_t r = 0; r < kHere; ++r) {
#pragma GCC unroll 4
        for (int64_t at = 0; at < kColumns; at += kLineBytes / kCellBytes) __builtin_prefetch(line[r] + at, 1);
      }
    }
    Floats sum[kHere][kVectors];
#pragma GCC unroll 6
    for (int64_t r = 0; r < kHere; ++r) {
#pragma GCC unroll 4
      for (int64_t v = 0; v < kVectors; ++v) sum[r][v] = broadcast(0.0f);
    }
    const int64_t soon_at_once =
        kIsSparse ? (soon.bytes + cells - 1) / cells : up_to(kLineBytes, soon.bytes * kCellsAtOnce / cells);
    for (int64_t at = 0, i = 0, ahead = 0; i < cells;) {
      const int64_t until = kIsSparse || i + kCellsAtOnce > cells ? cells : i + kCellsAtOnce;
      if constexpr (!kIsSparse) {
        const int64_t soon_until = ahead + soon_at_once < soon.bytes ? ahead + soon_at_once : soon.bytes;
        for (; ahead < soon_until; ahead += kLineBytes) __builtin_prefetch(soon.first + ahead, 0, 2);
      }
      for (; i < until; ++i) {
        if constexpr (kIsSparse) {
          __builtin_prefetch(soon.first, 0, 2);
          soon.first += soon_at_once;
        }
        Ints beside[kVectors];
#pragma GCC unroll 4
        for (int64_t v = 0; v < kVectors; ++v) {
          beside[v] = load_cells(reinterpret_cast<const Stored*>(b + v * line_bytes));
        }
#pragma GCC unroll 6
        for (int64_t r = 0; r < kHere; ++r) {
          int32_t cell;
          __builtin_memcpy(&cell, row[r] + at, sizeof cell);
          const Ints everywhere = broadcast_int(cell);
#pragma GCC unroll 4
          for (int64_t v = 0; v < kVectors; ++v) sum[r][v] = Arithmetic::multiply_add(everywhere, beside[v], sum[r][v]);
        }
        at += step_bytes;
        b += kVectorBytes;
      }
    }
#pragma GCC unroll 6
    for (int64_t r = 0; r < kHere; ++r) {
      if (r >= rows) break;
#pragma GCC unroll 4
      for (int64_t v = 0; v < kVectors; ++v) {
        float* to = line[r] + v * kWidth;
        if (columns == kColumns) {
          store(to, add ? load(to, Whole{}) + sum[r][v] : sum[r][v], Whole{});
        } else {
          const Part part = lanes_of(columns - v * kWidth);
          store(to, add ? load(to, part) + sum[r][v] : sum[r][v], part);
        }
      }
    }
  }

  static void run(const ProductShape& shape, const void* a_memory, const void* packed_b, float* c, void* scratch) {
    const auto* a = static_cast<const Element*>(a_memory);
    const auto* b = static_cast<const char*>(packed_b);
    for (int64_t k = 0; k < shape.k; k += block_depth(shape)) {
      const int64_t depth = depth_from(shape, k), cells = (depth + kPerCell - 1) / kPerCell;
      const int64_t line_bytes = up_to(kWidth, cells) * kVectorBytes;
      const bool in_place = shape.a.column == 1 && depth % kPerCell == 0 && shape.n < kWorthCopying;
      const Element* from = a + k * shape.a.column;
      if (!in_place) copy_rows(static_cast<char*>(scratch), from, shape.a, shape.m, depth);
      const int64_t row_bytes = in_place ? shape.a.row * static_cast<int64_t>(sizeof(Element)) : kCellBytes;
      const int64_t step_bytes = in_place ? kCellBytes : kCopiedRows * kCellBytes;
      for (int64_t j = 0; j < shape.n; j += kColumns) {
        const int64_t columns = shape.n - j < kColumns ? shape.n - j : kColumns;
        const int64_t panel_bytes = kVectors * line_bytes;
        // A row or two read b from end to end, which the processor foresees by itself.
        const bool looks_ahead = shape.m > 2 && (j + kColumns < shape.n || k + depth < shape.k);
        const int64_t soon_bytes = looks_ahead ? up_to(kLineBytes, panel_bytes / ((shape.m + kRows - 1) / kRows)) : 0;
        const bool is_sparse = soon_bytes <= cells * kLineBytes;
        Soon soon = {b + panel_bytes, soon_bytes};
        for (int64_t i = 0; i < shape.m; i += kRows) {
          const int64_t rows = shape.m - i < kRows ? shape.m - i : kRows;
          const auto block_of_rows = rows > 4    ? (is_sparse ? block<kRows, true> : block<kRows, false>)
                                     : rows > 2  ? (is_sparse ? block<4, true> : block<4, false>)
                                     : rows == 2 ? block<2, false>
                                                 : block<1, false>;
          const char* first = in_place ? reinterpret_cast<const char*>(from + i * shape.a.row) : copied_row(scratch, i, cells);
          block_of_rows(c + i * shape.c_width + j, shape.c_width, rows, columns, shape.add || k > 0, first, row_bytes,
                        step_bytes, b, line_bytes, cells, soon);
          soon.first += soon.bytes;
        }
        b += panel_bytes;
      }
    }
  }

  static constexpr ProductLoops loops() {
    return {packed_bytes, pack, kIsWhole ? pack_int4 : nullptr, square, square_at, scratch_bytes, run};
  }
};

}  // namespace
}  // namespace holdfast::kernels::cpu
