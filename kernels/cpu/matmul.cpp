// Products of linear layers, cut into output tiles. Formulas in kernels/ref/matmul.h.
// Bytes: operands are read once per tile row or column of the output and stay in the second-level cache; outputs once.
#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <cstring>

namespace holdfast::kernels::cpu {
namespace {

// Rows of tiles, where there are fewer tiles than kFewTiles lower ones: else threads have nothing to do while another one has
// the third of three. 192 are whole blocks in the loops of every instruction set.
constexpr int64_t kTileRows = 256, kLowTileRows = 192;
constexpr int64_t kTileColumns = 512;
constexpr int64_t kFewTiles = 16;
constexpr int64_t kSumRows = 128;  // rows of dout whose sum is one partial of dbias

// The output of one product as tiles, numbered row by row.
struct Tiles {
  Cut rows, columns;
  Tiles(int64_t m, int64_t n) : rows(Cut::even(m, kTileRows, 16)), columns(Cut::even(n, kTileColumns, 64)) {
    if (count() < kFewTiles) rows = Cut::even(m, kLowTileRows, 16);
  }
  int64_t count() const { return rows.count * columns.count; }

  struct Tile {
    int64_t row, rows, column, columns;
    bool last_row, last_column;
  };
  Tile operator[](int64_t i) const {
    const int64_t r = i / columns.count, c = i % columns.count;
    return {rows.begin(r), rows.size(r), columns.begin(c), columns.size(c), r + 1 == rows.count, c + 1 == columns.count};
  }
};

// Tiles have at most two heights and two widths, so four products do for all of them.
class TileProducts {
 public:
  template <typename Prepare>  // prepare(rows, columns) gives the product for a tile of that size
  TileProducts(const Tiles& tiles, Prepare prepare) {
    for (const bool last_row : {false, true}) {
      for (const bool last_column : {false, true}) {
        const int64_t rows = tiles.rows.size(last_row ? tiles.rows.count - 1 : 0);
        const int64_t columns = tiles.columns.size(last_column ? tiles.columns.count - 1 : 0);
        products_[last_row][last_column] = prepare(rows, columns);
      }
    }
  }
  const Product& of(const Tiles::Tile& tile) const { return products_[tile.last_row][tile.last_column]; }
  const Product& of_column(bool last) const { return products_[false][last]; }

 private:
  Product products_[2][2];
};

// The right operand of all tiles, to be packed once: each column of tiles has one, however high its tiles are. By pieces, for
// there may be a single column of tiles: parts of k, and where these are few, of its columns, too. (An operand by rows has
// whole rows in a part of k, and a little of each of all rows in some columns, which takes longer.)
class PackedColumns {
 public:
  PackedColumns(Scratch& scratch, const Tiles& tiles, const TileProducts& products)
      : columns_(tiles.columns),
        products_(products),
        parts_(std::max<int64_t>(1, products.of_column(false).shape().k / kPackedDepth)),
        pieces_(parts_ < kFewParts ? Cut::of(kPackedColumns, columns_.extent) : columns_),
        bytes_(products.of_column(columns_.count == 1).packed_bytes()) {
    packed_ = static_cast<char*>(scratch.reserve(bytes_ * static_cast<size_t>(columns_.count)));
  }
  int64_t pieces() const { return pieces_.count * parts_; }
  // Piece i. `operand`(column): where that column of the whole operand is.
  template <typename Operand>
  void pack(int64_t i, const Operand& operand) const {
    const int64_t at_column = i / parts_, tile = pieces_.begin(at_column) / columns_.piece, first = columns_.begin(tile);
    const Piece piece = {pieces_.begin(at_column) - first, pieces_.size(at_column), i % parts_, parts_};
    products_.of_column(tile + 1 == columns_.count).pack(operand(first), piece, at(tile));
  }
  const void* of(const Tiles::Tile& tile) const { return at(tile.column / columns_.piece); }

 private:
  char* at(int64_t column) const { return packed_ + bytes_ * static_cast<size_t>(column); }

  static constexpr int64_t kPackedDepth = 512, kFewParts = 4;

  Cut columns_;
  const TileProducts& products_;
  int64_t parts_;  // of k
  Cut pieces_;     // of columns: none has some of two tiles
  size_t bytes_;   // of a whole column of tiles; the last may need less
  char* packed_;
};

}  // namespace

void CpuOps::matmul_forward(Act* out, Act* pre_gelu, const Act* in, const Act* weight, const float* bias, Epilogue epilogue,
                            int64_t N, int64_t IC, int64_t OC) {
  const void* x = operands(in, N * IC, in_);           // (N, IC)
  const void* w = operands(weight, OC * IC, weight_);  // (OC, IC)
  const Tiles tiles(N, OC);
  const int64_t width = tiles.columns.piece;
  const TileProducts products(
      tiles, [&](int64_t rows, int64_t columns) { return product(rows, IC, columns, by_rows(IC), transposed(IC), width); });
  const PackedColumns packed(packed_, tiles, products);
  const auto row_of_w = [&](int64_t column) { return operand_at(w, column * IC); };
  team_.for_each(packed.pieces(), [&](int64_t i, int) { packed.pack(i, row_of_w); });
  for (Scratch& scratch : per_thread_) scratch.floats(tiles.rows.piece * width);
  team_.for_each(tiles.count(), [&](int64_t i, int thread) {
    const auto tile = tiles[i];
    float* y = per_thread_[static_cast<size_t>(thread)].floats(0);  // (tile rows, width)
    products.of(tile).run_packed(thread, operand_at(x, tile.row * IC), packed.of(tile), y);
    for (int64_t r = 0; r < tile.rows; ++r) {
      const int64_t target = (tile.row + r) * OC + tile.column;
      elements_.finish_row(at(out, target), epilogue == Epilogue::kGelu ? at(pre_gelu, target) : nullptr, y + r * width,
                           bias + tile.column, tile.columns);
    }
  });
}

void CpuOps::matmul_backward(Act* din, float* dweight, float* dbias, const Act* dout, const Act* in, const Act* pre_gelu,
                             const Act* weight, int64_t N, int64_t IC, int64_t OC) {
  const void* dy = operands(dout, N * OC, out_);
  const void* x = operands(in, N * IC, in_);
  const void* w = operands(weight, OC * IC, weight_);
  const Tiles din_tiles(N, IC), dweight_tiles(OC, IC);
  const int64_t width = din_tiles.columns.piece;
  const TileProducts din_products(
      din_tiles, [&](int64_t rows, int64_t columns) { return product(rows, OC, columns, by_rows(OC), by_rows(IC), width); });
  const TileProducts dweight_products(
      dweight_tiles, [&](int64_t rows, int64_t columns) { return product(rows, N, columns, transposed(OC), by_rows(IC), IC); });
  const PackedColumns packed_w(packed_, din_tiles, din_products), packed_x(packed_more_, dweight_tiles, dweight_products);
  const int64_t of_w = packed_w.pieces();
  team_.for_each(of_w + packed_x.pieces(), [&](int64_t i, int) {
    if (i < of_w) return packed_w.pack(i, [&](int64_t column) { return operand_at(w, column); });
    packed_x.pack(i - of_w, [&](int64_t column) { return operand_at(x, column); });
  });
  const Cut sums = Cut::of(kSumRows, N);
  float* partials = partials_.floats(sums.count * OC);  // (pieces, OC)
  for (Scratch& scratch : per_thread_) scratch.floats(din_tiles.rows.piece * width);

  const auto din_task = [&](int64_t i, int thread) {
    const auto tile = din_tiles[i];
    float* y = per_thread_[static_cast<size_t>(thread)].floats(0);
    din_products.of(tile).run_packed(thread, operand_at(dy, tile.row * OC), packed_w.of(tile), y);
    for (int64_t r = 0; r < tile.rows; ++r) {
      const int64_t first = (tile.row + r) * IC + tile.column;
      elements_.from_float(at(din, first), y + r * width, tile.columns);
      if (pre_gelu != nullptr) elements_.gelu_backward(at(din, first), at(pre_gelu, first), at(din, first), tile.columns);
    }
  };
  const auto dweight_task = [&](int64_t i, int thread) {
    const auto tile = dweight_tiles[i];
    dweight_products.of(tile).run_packed(thread, operand_at(dy, tile.row), packed_x.of(tile),
                                         dweight + tile.row * IC + tile.column);
  };
  const auto sum_task = [&](int64_t i) {
    float* piece = partials + i * OC;
    std::memset(piece, 0, static_cast<size_t>(OC) * sizeof(float));
    for (int64_t n = sums.begin(i); n < sums.begin(i) + sums.size(i); ++n) elements_.accumulate(piece, at(dout, n * OC), OC);
  };
  // One list of tasks for all three, so that no thread waits for another in between.
  const int64_t dins = din_tiles.count(), dweights = dweight_tiles.count();
  team_.for_each(dins + dweights + sums.count, [&](int64_t i, int thread) {
    if (i < dweights) {
      dweight_task(i, thread);
    } else if (i < dweights + dins) {
      din_task(i - dweights, thread);
    } else {
      sum_task(i - dweights - dins);
    }
  });
  std::memcpy(dbias, partials, static_cast<size_t>(OC) * sizeof(float));
  for (int64_t i = 1; i < sums.count; ++i) vectors_.floats.add(dbias, dbias, partials + i * OC, OC);
}

}  // namespace holdfast::kernels::cpu
