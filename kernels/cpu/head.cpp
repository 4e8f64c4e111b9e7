// The tied head with cross-entropy. Formulas in kernels/ref/head.h.
//
// Blocks of kRows rows make chunks, the vocabulary is cut into tiles of kColumns. For a chunk:
//   1. per tile and block: logits, and while they are in cache e^(logit - largest of the tile's row) and its sum;
//   2. per row: the tiles' sums are joined into the loss and one factor per tile that turns 1 into softmax * scale / N;
//   3. per group of tiles, in order: dlogits, dwte of the tile (added over blocks), and dx, summed over the group;
//   4. dx is the sum over groups, in order.
// So nothing is computed twice, and the inner dimension V is cut at fixed places. A chunk's exponentials are kept in between,
// as operands of products: rounded to bfloat16 where these are multiplied, but for the target's. There a chunk has two blocks,
// whose exponentials take the memory of one in float32, and both use a tile of wte, and of dwte, while it is at hand. Where
// dwte comes later, in groups of tiles, the factors of step 2 are kept and a tile's logits are computed again; for the last
// chunk that happens only in the tiles which other ops' scratch has overwritten.
#include <algorithm>
#include <cstddef>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/ordered_sum.h"

namespace holdfast::kernels::cpu {
namespace {

constexpr int64_t kRows = 512;
constexpr int64_t kColumns = 512;
constexpr int64_t kTile = kRows * kColumns;
constexpr int64_t kGroups = 16;         // also the most threads that step 3 can use
constexpr int64_t kPartsPerThread = 2;  // of dx: a thread goes on while the one before it is slow
constexpr int64_t kJoinRows = 32;       // rows per task of steps 2 and 4
static_assert(kGroups <= OrderedSum::kMostParts);

}  // namespace

struct CpuOps::Head {
  CpuOps& ops;
  const Act* wte;
  const int32_t* targets;
  int64_t N, C, V;
  float scale;                        // of the gradient
  Cut blocks, chunks, tiles, groups;  // groups are of tiles
  const void* x;                      // (N, C) operands
  float *largest, *sums;              // (rows of a chunk, tiles)
  float* target_logits;               // (rows of a chunk)
  float* target_gradients;            // likewise: the target's exponential, and from step 2 on its dlogit
  bool finds_targets = true;          // else the two stay as they are

  Head(CpuOps& owner, const Act* input, const Act* weights, const int32_t* target_ids, int64_t n, int64_t c, int64_t v,
       float gradient_scale = 1.0f)
      : ops(owner),
        wte(weights),
        targets(target_ids),
        N(n),
        C(c),
        V(v),
        scale(gradient_scale),
        blocks(Cut::of(kRows, n)),
        chunks(Cut::of(std::min(owner.native_bfloat16_ ? 2 * kRows : kRows, n), n)),
        tiles(Cut::of(kColumns, v)),
        groups(Cut::even(tiles.count, (tiles.count + kGroups - 1) / kGroups, 1)),
        x(owner.operands(input, n * c, owner.in_)),
        largest(owner.statistics_.floats(2 * chunks.piece * (tiles.count + 1))),
        sums(largest + chunks.piece * tiles.count),
        target_logits(sums + chunks.piece * tiles.count),
        target_gradients(target_logits + chunks.piece) {
    for (Scratch& scratch : owner.per_thread_) scratch.floats(std::max(kColumns * C, 2 * kTile));
  }

  // Some rows of a chunk: `row` is their first in it, `first` their first of all.
  struct Block {
    int64_t row, first, rows;
    bool is_last;  // of all: it may have fewer rows than others
  };
  int64_t blocks_in(int64_t chunk) const { return Cut::of(kRows, chunks.size(chunk)).count; }
  Block block_of(int64_t chunk, int64_t i) const {
    const int64_t index = chunks.begin(chunk) / kRows + i;
    return {i * kRows, blocks.begin(index), blocks.size(index), index + 1 == blocks.count};
  }
  bool is_last_tile(int64_t tile) const { return tile + 1 == tiles.count; }

  // The products of all sizes that blocks and tiles have: [last block][last tile].
  struct BySize {
    Product of[2][2];
  };
  template <typename Make>  // make(rows, columns) gives the product
  BySize by_size(const Make& make) const {
    BySize made;
    for (const bool last_block : {false, true}) {
      for (const bool last_tile : {false, true}) {
        made.of[last_block][last_tile] =
            make(blocks.size(last_block ? blocks.count - 1 : 0), tiles.size(last_tile ? tiles.count - 1 : 0));
      }
    }
    return made;
  }
  BySize logits_products() const {
    return by_size(
        [&](int64_t rows, int64_t columns) { return ops.product(rows, C, columns, by_rows(C), transposed(C), kColumns); });
  }
  BySize dwte_products(bool add) const {
    return by_size(
        [&](int64_t rows, int64_t columns) { return ops.product(columns, rows, C, transposed(kColumns), by_rows(C), C, add); });
  }
  BySize dx_products(bool add) const {
    return by_size(
        [&](int64_t rows, int64_t columns) { return ops.product(rows, columns, C, by_rows(kColumns), by_rows(C), C, add); });
  }

  // The thread's own two tiles, (kRows, kColumns) floats each. The weights of weights_of lie in the same place.
  float* own_tile(int thread) const { return ops.per_thread_[static_cast<size_t>(thread)].floats(0); }
  float* other_tile(int thread) const { return own_tile(thread) + kTile; }

  // (tile columns, C) of wte as operands; widened into the front of the thread's scratch where that is needed.
  const void* weights_of(int64_t tile, int thread) const {
    const void* in = ops.at(wte, tiles.begin(tile) * C);
    if (!ops.widens()) return in;
    float* wide = own_tile(thread);
    ops.elements_.to_float(wide, in, tiles.size(tile) * C);
    return wide;
  }

  // Step 1 for one tile of a block: its exponentials in `out`, (rows, kColumns) operands.
  void exponentiate(const Product& logits, const void* packed_weights, void* out, int64_t tile, const Block& block,
                    int thread) const {
    float* const as_floats = ops.native_bfloat16_ ? own_tile(thread) : static_cast<float*>(out);
    logits.run_packed(thread, ops.operand_at(x, block.first * C), packed_weights, as_floats);
    for (int64_t r = 0; r < block.rows; ++r) {
      float* const row = as_floats + r * kColumns;
      const int64_t at = block.row + r, target = targets[block.first + r] - tiles.begin(tile);
      const bool here = finds_targets && target >= 0 && target < tiles.size(tile);
      if (here) target_logits[at] = row[target];
      largest[at * tiles.count + tile] =
          ops.vectors_.floats.exponentiate_row(row, sums + at * tiles.count + tile, tiles.size(tile));
      if (here) target_gradients[at] = row[target];
      if (ops.native_bfloat16_) ops.operands_.from_float(operand(out, r * kColumns), row, tiles.size(tile));
    }
  }

  // Step 2.
  void join(float* losses, int64_t chunk) const {
    const int64_t first = chunks.begin(chunk);
    const Cut parts = Cut::of(kJoinRows, chunks.size(chunk));
    ops.team_.for_each(parts.count, [&](int64_t part, int) {
      for (int64_t r = parts.begin(part); r < parts.begin(part) + parts.size(part); ++r) {
        float* const factors = largest + r * tiles.count;
        losses[first + r] = ops.vectors_.floats.join_pieces(factors, sums + r * tiles.count, tiles.count, target_logits[r],
                                                            static_cast<float>(N) / scale);
        target_gradients[r] = target_gradients[r] * factors[targets[first + r] / kColumns] - scale / static_cast<float>(N);
      }
    });
  }

  void* operand(void* of, int64_t index) const {
    return static_cast<char*>(of) + static_cast<size_t>(index) * ops.operand_size_;
  }

  // (softmax - onehot) * scale / N for one tile of a block, as operands (rows, kColumns): in place of the exponentials `e`,
  // (rows, kColumns) operands, where those are float32. `factors` (rows, tiles) and `at_targets` (rows) are of the block.
  const void* dlogits(void* e, const float* factors, const float* at_targets, int64_t tile, const Block& block,
                      int thread) const {
    void* const d = ops.native_bfloat16_ ? own_tile(thread) : e;
    for (int64_t r = 0; r < block.rows; ++r) {
      const int64_t target = targets[block.first + r] - tiles.begin(tile);
      ops.operands_.scaled(operand(d, r * kColumns), operand(e, r * kColumns), factors[r * tiles.count + tile],
                           tiles.size(tile));
      if (target >= 0 && target < tiles.size(tile))
        ops.operands_.from_float(operand(d, r * kColumns + target), at_targets + r, 1);
    }
    return d;
  }
};

void CpuOps::head_loss(float* losses, const Act* x, const Act* wte, const int32_t* targets, int64_t N, int64_t C, int64_t V) {
  const Head head(*this, x, wte, targets, N, C, V);
  const auto logits = head.logits_products();
  for (int64_t chunk = 0; chunk < head.chunks.count; ++chunk) {
    team_.for_each(head.tiles.count, [&](int64_t tile, int thread) {
      const auto& of = logits.of;
      const void* const packed = of[0][head.is_last_tile(tile)].pack_own(thread, head.weights_of(tile, thread));
      for (int64_t i = 0; i < head.blocks_in(chunk); ++i) {
        const auto block = head.block_of(chunk, i);
        head.exponentiate(of[block.is_last][head.is_last_tile(tile)], packed, head.other_tile(thread), tile, block, thread);
      }
    });
    head.join(losses, chunk);
  }
}

void CpuOps::head_loss_backward(float* losses, Act* dx, float* dwte, const Act* x, const Act* wte, const int32_t* targets,
                                int64_t N, int64_t C, int64_t V, float scale) {
  const Head head(*this, x, wte, targets, N, C, V, scale);
  const Cut& tiles = head.tiles;
  const int64_t chunk_rows = head.chunks.piece, tile_of_chunk = chunk_rows * kColumns;
  const auto logits = head.logits_products();
  const Head::BySize dwtes[2] = {head.dwte_products(false), head.dwte_products(true)},
                     dxs[2] = {head.dx_products(false), head.dx_products(true)};  // [adds]
  // (tiles, rows of a chunk, kColumns), operands
  auto* const exponentials = static_cast<char*>(out_.reserve(static_cast<size_t>(tiles.count * tile_of_chunk) * operand_size_));
  const auto kept_at = [&](int64_t tile, const Head::Block& block) {
    return exponentials + static_cast<size_t>(tile * tile_of_chunk + block.row * kColumns) * operand_size_;
  };
  const size_t packed_rows_bytes = aligned(dwtes[0].of[0][0].packed_bytes());  // of a block of x
  auto* const rows_of_x = static_cast<char*>(packed_.reserve(packed_rows_bytes * static_cast<size_t>(head.blocks_in(0))));
  const int64_t parts = std::min(head.groups.count, kPartsPerThread * team_.threads());
  float* const dx_sum = partials_.floats((parts + 1) * chunk_rows * C);  // (rows of a chunk, C), and the parts after it
  float* const factors = dwte == nullptr ? head_factors_.floats(N * (tiles.count + 1)) : nullptr;

  for (int64_t chunk = 0; chunk < head.chunks.count; ++chunk) {
    const int64_t first = head.chunks.begin(chunk), rows = head.chunks.size(chunk), blocks = head.blocks_in(chunk);
    team_.for_each(tiles.count, [&](int64_t tile, int thread) {
      const bool last = head.is_last_tile(tile);
      const void* const packed = logits.of[0][last].pack_own(thread, head.weights_of(tile, thread));
      for (int64_t i = 0; i < blocks; ++i) {
        const auto block = head.block_of(chunk, i);
        head.exponentiate(logits.of[block.is_last][last], packed, kept_at(tile, block), tile, block, thread);
      }
    });
    head.join(losses, chunk);
    if (dwte != nullptr) {
      for (int64_t i = 0; i < blocks; ++i) {
        const auto block = head.block_of(chunk, i);
        dwtes[0].of[block.is_last][0].pack(operand_at(head.x, block.first * C),
                                           rows_of_x + static_cast<size_t>(i) * packed_rows_bytes);
      }
    } else {
      std::copy_n(head.largest, rows * tiles.count, factors + first * tiles.count);
      std::copy_n(head.target_gradients, rows, factors + N * tiles.count + first);
    }
    OrderedSum sum(dx_sum + chunk_rows * C, parts, chunk_rows * C);
    team_.for_each(head.groups.count, [&](int64_t group, int thread) {
      float* const part = sum.begin(group);
      const int64_t begin = head.groups.begin(group);
      for (int64_t tile = begin; tile < begin + head.groups.size(group); ++tile) {
        const bool last = head.is_last_tile(tile);
        const void* const packed = dxs[0].of[0][last].pack_own(thread, head.weights_of(tile, thread));
        for (int64_t i = 0; i < blocks; ++i) {
          const auto block = head.block_of(chunk, i);
          const void* d = head.dlogits(kept_at(tile, block), head.largest + block.row * tiles.count,
                                       head.target_gradients + block.row, tile, block, thread);
          if (dwte != nullptr) {
            dwtes[block.first > 0].of[block.is_last][last].run_packed(
                thread, d, rows_of_x + static_cast<size_t>(i) * packed_rows_bytes, dwte + tiles.begin(tile) * C);
          }
          dxs[tile > begin].of[block.is_last][last].run_packed(thread, d, packed, part + block.row * C);
        }
      }
      sum.end(group, part, [&](const float* its, bool is_first) {
        if (is_first) {
          std::copy_n(its, rows * C, dx_sum);
        } else {
          vectors_.floats.add(dx_sum, dx_sum, its, rows * C);
        }
      });
    });
    const Cut pieces = Cut::of(kJoinRows, rows);
    team_.for_each(pieces.count, [&](int64_t piece, int) {
      const int64_t offset = pieces.begin(piece) * C;
      elements_.from_float(at(dx, first * C + offset), dx_sum + offset, pieces.size(piece) * C);
    });
  }
  if (dwte == nullptr) out_.keep();
}

int64_t CpuOps::head_rows() const {
  return kColumns;
}

// Steps 1 and 3 for some of the tiles, each of which goes through the blocks alone.
void CpuOps::head_rows_backward(float* dwte, int64_t first_row, int64_t count, const Act* x, const Act* wte,
                                const int32_t* targets, int64_t N, int64_t C, int64_t V, float scale) {
  Head head(*this, x, wte, targets, N, C, V, scale);
  head.finds_targets = false;
  const int64_t all = head.tiles.count, first_tile = first_row / kColumns;
  const float* const factors = head_factors_.floats(N * (all + 1));
  const auto logits = head.logits_products();
  const Head::BySize dwtes[2] = {head.dwte_products(false), head.dwte_products(true)};  // [adds]
  const size_t packed_rows_bytes = aligned(dwtes[0].of[0][0].packed_bytes());
  auto* const rows_of_x = static_cast<char*>(packed_.reserve(packed_rows_bytes * static_cast<size_t>(head.blocks.count)));
  for (int64_t i = 0; i < head.blocks.count; ++i) {
    dwtes[0].of[i + 1 == head.blocks.count][0].pack(operand_at(head.x, head.blocks.begin(i) * C),
                                                    rows_of_x + static_cast<size_t>(i) * packed_rows_bytes);
  }
  auto* const exponentials = static_cast<char*>(out_.memory());  // the last chunk's, where they are left
  const size_t overwritten = out_.asked_since_kept();
  team_.for_each((count + kColumns - 1) / kColumns, [&](int64_t i, int thread) {
    const int64_t tile = first_tile + i;
    const bool last = head.is_last_tile(tile);
    const void* packed = nullptr;  // for logits
    for (int64_t chunk = 0; chunk < head.chunks.count; ++chunk) {
      for (int64_t at = 0; at < head.blocks_in(chunk); ++at) {
        const auto block = head.block_of(chunk, at);
        const size_t place = static_cast<size_t>((tile * head.chunks.piece + block.row) * kColumns) * operand_size_;
        const bool is_kept = chunk + 1 == head.chunks.count && place >= overwritten;
        const bool are_dlogits = is_kept && !native_bfloat16_;  // they took the exponentials' place
        void* const e = is_kept ? static_cast<void*>(exponentials + place) : head.other_tile(thread);
        if (!is_kept) {
          if (packed == nullptr) packed = logits.of[0][last].pack_own(thread, head.weights_of(tile, thread));
          head.exponentiate(logits.of[block.is_last][last], packed, e, tile, block, thread);
        }
        const void* d =
            are_dlogits ? e
                        : head.dlogits(e, factors + block.first * all, factors + N * all + block.first, tile, block, thread);
        dwtes[block.first > 0].of[block.is_last][last].run_packed(
            thread, d, rows_of_x + static_cast<size_t>(block.first / kRows) * packed_rows_bytes, dwte + i * kColumns * C);
      }
    }
  });
}

}  // namespace holdfast::kernels::cpu
