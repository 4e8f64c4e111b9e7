// The tied head with cross-entropy. Formulas in kernels/ref/head.h.
//
// Rows are taken in chunks of kRows, the vocabulary in tiles of kColumns. For a chunk:
//   1. per tile: logits, and while they are in cache e^(logit - largest of the tile's row) and its sum;
//   2. per row: the tiles' sums are joined into the loss and one factor per tile that turns 1 into softmax * scale / N;
//   3. per group of tiles, in order: dlogits, dwte of the tile (added over chunks), and dx, summed over the group;
//   4. per row: dx is the sum over groups, in order.
// So nothing is computed twice, the inner dimension V is cut at fixed places, and memory is kRows * V floats. Where dwte comes
// later, in groups of tiles, the factors of step 2 are kept and a tile's logits are computed again; for the last chunk that
// happens only in the tiles which other ops' scratch has overwritten.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/cpu/cpu_ops.h"

namespace holdfast::kernels::cpu {
namespace {

constexpr int64_t kRows = 512;
constexpr int64_t kColumns = 512;
constexpr int64_t kGroups = 16;    // each has its own dx; also the most threads that step 3 can use
constexpr int64_t kJoinRows = 32;  // rows per task of steps 2 and 4

}  // namespace

struct CpuOps::Head {
  CpuOps& ops;
  const Act* wte;
  const int32_t* targets;
  int64_t N, C, V;
  float scale;                // of the gradient
  Cut chunks, tiles, groups;  // groups are of tiles
  const void* x;              // (N, C) operands
  float* exponentials;        // (tiles, kRows, kColumns); (threads, kRows, kColumns) when only losses are wanted
  float *largest, *sums;      // (kRows, tiles)
  float* target_logits;       // (kRows)
  float* dx_sums;             // (groups, kRows, C)

  Head(CpuOps& owner, const Act* input, const Act* weights, const int32_t* target_ids, int64_t n, int64_t c, int64_t v,
       bool gradient, float gradient_scale = 1.0f)
      : ops(owner),
        wte(weights),
        targets(target_ids),
        N(n),
        C(c),
        V(v),
        scale(gradient_scale),
        chunks(Cut::of(kRows, n)),
        tiles(Cut::of(kColumns, v)),
        groups(Cut::even(tiles.count, (tiles.count + kGroups - 1) / kGroups, 1)),
        x(owner.operands(input, n * c, owner.in_)),
        exponentials(owner.out_.floats((gradient ? tiles.count : owner.team_.threads()) * kRows * kColumns)),
        largest(owner.statistics_.floats(2 * kRows * tiles.count + kRows)),
        sums(largest + kRows * tiles.count),
        target_logits(sums + kRows * tiles.count),
        dx_sums(gradient ? owner.partials_.floats(groups.count * kRows * c) : nullptr) {
    for (Scratch& scratch : owner.per_thread_) scratch.floats(kColumns * std::max(C, kRows));
  }

  // (tile columns, C) of wte as operands; widened into the front of the thread's scratch where that is needed.
  const void* weights_of(int64_t tile, int thread) const {
    const void* in = ops.at(wte, tiles.begin(tile) * C);
    if (!ops.widens()) return in;
    float* wide = ops.per_thread_[static_cast<size_t>(thread)].floats(0);
    ops.elements_.to_float(wide, in, tiles.size(tile) * C);
    return wide;
  }

  Product logits_product(int64_t rows, int64_t columns) const {
    return ops.product(rows, C, columns, by_rows(C), transposed(C), kColumns);
  }

  // Step 1 for one tile of the chunk that begins at row `first`; `tile_out` is (rows, kColumns).
  void exponentiate(const Product& logits, float* tile_out, int64_t tile, int64_t first, int64_t rows, int thread) const {
    logits.run(thread, ops.operand_at(x, first * C), weights_of(tile, thread), tile_out);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t target = targets[first + r] - tiles.begin(tile);
      if (target >= 0 && target < tiles.size(tile)) target_logits[r] = tile_out[r * kColumns + target];
      const int64_t i = r * tiles.count + tile;
      largest[i] = ops.vectors_.floats.exponentiate_row(tile_out + r * kColumns, sums + i, tiles.size(tile));
    }
  }

  // Step 2.
  void join(float* losses, int64_t first, int64_t rows) const {
    const Cut parts = Cut::of(kJoinRows, rows);
    ops.team_.for_each(parts.count, [&](int64_t part, int) {
      for (int64_t r = parts.begin(part); r < parts.begin(part) + parts.size(part); ++r) {
        losses[first + r] = ops.vectors_.floats.join_pieces(largest + r * tiles.count, sums + r * tiles.count, tiles.count,
                                                            target_logits[r], static_cast<float>(N) / scale);
      }
    });
  }

  // (softmax - onehot) * scale / N for one tile, as operands (rows, kColumns): in place of its exponentials `e` if they are
  // float32. `factors` (rows, tiles) are of the chunk, as step 2 left them.
  const void* dlogits(float* e, const float* factors, int64_t tile, int64_t first, int64_t rows, int thread) const {
    void* d = ops.native_bfloat16_ ? ops.per_thread_[static_cast<size_t>(thread)].floats(0) : e;
    for (int64_t r = 0; r < rows; ++r) {
      float* row = e + r * kColumns;
      const float factor = factors[r * tiles.count + tile];
      const int64_t target = targets[first + r] - tiles.begin(tile);
      const bool here = target >= 0 && target < tiles.size(tile);
      const float at_target = here ? row[target] * factor - scale / static_cast<float>(N) : 0.0f;
      void* to = static_cast<char*>(d) + static_cast<size_t>(r * kColumns) * ops.operand_size_;
      ops.operands_.scaled_from_float(to, row, factor, tiles.size(tile));
      if (here)
        ops.operands_.from_float(static_cast<char*>(to) + static_cast<size_t>(target) * ops.operand_size_, &at_target, 1);
    }
    return d;
  }
};

void CpuOps::head_loss(float* losses, const Act* x, const Act* wte, const int32_t* targets, int64_t N, int64_t C, int64_t V) {
  const Head head(*this, x, wte, targets, N, C, V, false);
  for (int64_t chunk = 0; chunk < head.chunks.count; ++chunk) {
    const int64_t first = head.chunks.begin(chunk), rows = head.chunks.size(chunk);
    const auto whole = head.logits_product(rows, head.tiles.size(0));
    const auto last = head.logits_product(rows, head.tiles.size(head.tiles.count - 1));
    team_.for_each(head.tiles.count, [&](int64_t tile, int thread) {
      head.exponentiate(tile + 1 == head.tiles.count ? last : whole, head.exponentials + thread * kRows * kColumns, tile, first,
                        rows, thread);
    });
    head.join(losses, first, rows);
  }
}

void CpuOps::head_loss_backward(float* losses, Act* dx, float* dwte, const Act* x, const Act* wte, const int32_t* targets,
                                int64_t N, int64_t C, int64_t V, float scale) {
  const Head head(*this, x, wte, targets, N, C, V, true, scale);
  const Cut& tiles = head.tiles;
  for (int64_t chunk = 0; chunk < head.chunks.count; ++chunk) {
    const int64_t first = head.chunks.begin(chunk), rows = head.chunks.size(chunk);
    Product logits[2], dwtes[2], dxs[2][2];  // [last tile], and for dx [adds to the group's sum]
    for (const bool last : {false, true}) {
      const int64_t columns = tiles.size(last ? tiles.count - 1 : 0);
      logits[last] = head.logits_product(rows, columns);
      dwtes[last] = product(columns, rows, C, transposed(kColumns), by_rows(C), C, chunk > 0);
      for (const bool add : {false, true}) dxs[last][add] = product(rows, columns, C, by_rows(kColumns), by_rows(C), C, add);
    }
    team_.for_each(tiles.count, [&](int64_t tile, int thread) {
      head.exponentiate(logits[tile + 1 == tiles.count], head.exponentials + tile * kRows * kColumns, tile, first, rows,
                        thread);
    });
    head.join(losses, first, rows);
    void* const rows_of_x = packed_.reserve(dwtes[0].packed_bytes());  // the right operand of every tile's dwte
    if (dwte != nullptr) {
      dwtes[0].pack(operand_at(head.x, first * C), rows_of_x);
    } else {
      std::copy_n(head.largest, rows * tiles.count, head_factors_.floats(N * tiles.count) + first * tiles.count);
    }
    team_.for_each(head.groups.count, [&](int64_t group, int thread) {
      const int64_t begin = head.groups.begin(group);
      for (int64_t tile = begin; tile < begin + head.groups.size(group); ++tile) {
        const bool last = tile + 1 == tiles.count;
        const void* d = head.dlogits(head.exponentials + tile * kRows * kColumns, head.largest, tile, first, rows, thread);
        if (dwte != nullptr) dwtes[last].run_packed(thread, d, rows_of_x, dwte + tiles.begin(tile) * C);
        dxs[last][tile > begin].run(thread, d, head.weights_of(tile, thread), head.dx_sums + group * kRows * C);
      }
    });
    const Cut parts = Cut::of(kJoinRows, rows);
    team_.for_each(parts.count, [&](int64_t part, int) {
      const int64_t offset = parts.begin(part) * C, count = parts.size(part) * C;
      for (int64_t group = 1; group < head.groups.count; ++group) {
        vectors_.floats.add(head.dx_sums + offset, head.dx_sums + offset, head.dx_sums + group * kRows * C + offset, count);
      }
      elements_.from_float(at(dx, first * C + offset), head.dx_sums + offset, count);
    });
  }
  if (dwte == nullptr) out_.keep();
}

int64_t CpuOps::head_rows() const {
  return kColumns;
}

// Steps 1 and 3 for some of the tiles, each of which goes through the chunks alone.
void CpuOps::head_rows_backward(float* dwte, int64_t first_row, int64_t count, const Act* x, const Act* wte,
                                const int32_t* targets, int64_t N, int64_t C, int64_t V, float scale) {
  const Head head(*this, x, wte, targets, N, C, V, false, scale);
  const int64_t all = head.tiles.count, first_tile = first_row / kColumns;
  const float* const factors = head_factors_.floats(N * all);
  const auto columns = [&](bool last) { return head.tiles.size(last ? all - 1 : 0); };
  const auto dwte_product = [&](int64_t rows, bool last, bool add) {
    return product(columns(last), rows, C, transposed(kColumns), by_rows(C), C, add);
  };
  struct Chunk {
    int64_t first, rows;
    Product logits[2], dwte[2];  // [last tile]
    std::byte* rows_of_x;        // packed
  };
  std::vector<Chunk> chunks;
  size_t packed_bytes = 0;
  for (int64_t c = 0; c < head.chunks.count; ++c) {
    Chunk& chunk = chunks.emplace_back(Chunk{head.chunks.begin(c), head.chunks.size(c), {}, {}, nullptr});
    for (const bool last : {false, true}) {
      chunk.logits[last] = head.logits_product(chunk.rows, columns(last));
      chunk.dwte[last] = dwte_product(chunk.rows, last, c > 0);
    }
    packed_bytes += (chunk.dwte[0].packed_bytes() + 63) / 64 * 64;
  }
  auto* packed = static_cast<std::byte*>(packed_.reserve(packed_bytes));
  for (Chunk& chunk : chunks) {
    chunk.rows_of_x = packed;
    chunk.dwte[0].pack(operand_at(head.x, chunk.first * C), packed);
    packed += (chunk.dwte[0].packed_bytes() + 63) / 64 * 64;
  }
  constexpr int64_t kTile = kRows * kColumns;
  const size_t overwritten = out_.asked_since_kept() / sizeof(float);  // by this op too: a tile for each thread
  team_.for_each((count + kColumns - 1) / kColumns, [&](int64_t i, int thread) {
    const int64_t tile = first_tile + i;
    const bool last = tile + 1 == all;
    for (const Chunk& chunk : chunks) {
      const bool is_kept = &chunk == &chunks.back() && static_cast<size_t>(tile * kTile) >= overwritten;
      float* const e = head.exponentials + (is_kept ? tile : thread) * kTile;
      if (!is_kept) head.exponentiate(chunk.logits[last], e, tile, chunk.first, chunk.rows, thread);
      const bool are_dlogits = is_kept && !native_bfloat16_;  // they took the exponentials' place
      const void* d = are_dlogits ? e : head.dlogits(e, factors + chunk.first * all, tile, chunk.first, chunk.rows, thread);
      chunk.dwte[last].run_packed(thread, d, chunk.rows_of_x, dwte + i * kColumns * C);
    }
  });
}

}  // namespace holdfast::kernels::cpu
