// Attention to kept keys and values. Bytes: those of a sequence, packed once a page, are copied once per row, or per kQueryRows
// rows that follow each other.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/decode/decode.h"

namespace holdfast::kernels::cpu {

// Keys or values of one head in pages. A page that is being filled has rows (kPageTokens, HS) of activations. When its last row
// has come it is packed, once: then it has the squares (product_shape.h) of its rows as an operand, one after the other.
struct CpuOps::Decode::KeptRows {
  const Decode& decode;
  bool are_keys;
  int64_t HS;

  // Positions are the columns of the scores' operand, and the depth of the output's.
  ProductShape page_shape() const {
    const bool native = decode.ops_.native_bfloat16_;
    if (are_keys) return {1, HS, kPageTokens, by_rows(HS), transposed(HS), kPageTokens, false, native};
    return {1, kPageTokens, HS, by_rows(kPageTokens), by_rows(HS), HS, false, native};
  }
  Product page_product() const { return decode.kept_product(page_shape()); }
  size_t row_bytes() const { return static_cast<size_t>(HS) * decode.ops_.element_size_; }
  // visit(index, column, k) for each square of a page.
  template <typename Visit>
  void each_square(const Visit& visit) const {
    const SquareForm form = page_product().square();
    const ProductShape shape = page_shape();
    size_t index = 0;
    for (int64_t column = 0; column < shape.n; column += form.lines) {
      for (int64_t k = 0; k < shape.k; k += form.depth) visit(index++, column, k);
    }
  }
  size_t page_bytes() const {
    size_t squares = 0;
    each_square([&](size_t, int64_t, int64_t) { ++squares; });
    return aligned(std::max(static_cast<size_t>(kPageTokens) * row_bytes(), squares * page_product().square().bytes));
  }
  size_t room_bytes() const {
    return aligned(static_cast<size_t>(kPageTokens * HS) * decode.ops_.operand_size_) + page_product().packed_bytes();
  }

  // The first `count` rows of a page as squares, which may lie where the rows do. `room`: room_bytes().
  void pack(std::byte* squares, const std::byte* rows, int64_t count, std::byte* room) const {
    const CpuOps& ops = decode.ops_;
    const size_t filled = static_cast<size_t>(count * HS) * ops.operand_size_;
    const size_t whole = static_cast<size_t>(kPageTokens * HS) * ops.operand_size_;
    std::byte* const packed = room + aligned(whole);
    if (ops.widens()) {
      ops.elements_.to_float(reinterpret_cast<float*>(room), rows, count * HS);
    } else {
      std::memcpy(room, rows, filled);
    }
    std::memset(room + filled, 0, whole - filled);
    const Product product = page_product();
    product.pack(room, packed);
    const size_t bytes = product.square().bytes;
    each_square([&](size_t index, int64_t column, int64_t k) {
      std::memcpy(squares + index * bytes, packed + product.square_at(column, k), bytes);
    });
  }
  // Page number `page` of a sequence into the packed operand of a product over all of them. Null: zeros.
  void place(std::byte* packed, const Product& product, int64_t page, const std::byte* squares) const {
    const size_t bytes = product.square().bytes;
    const int64_t first = page * kPageTokens;
    each_square([&](size_t index, int64_t column, int64_t k) {
      (are_keys ? column : k) += first;
      if (column >= product.shape().n || k >= product.shape().k) return;
      std::byte* const to = packed + product.square_at(column, k);
      if (squares == nullptr) {
        std::memset(to, 0, bytes);
      } else {
        std::memcpy(to, squares + index * bytes, bytes);
      }
    });
  }
};

size_t CpuOps::Decode::page_bytes(int64_t C, int64_t NH) const {
  const auto of_head = [&](bool are_keys) { return KeptRows{*this, are_keys, C / NH}.page_bytes(); };
  return static_cast<size_t>(NH) * (of_head(true) + of_head(false));
}

// One head of one sequence.
struct CpuOps::Decode::Head {
  const Decode& decode;
  CpuOps& ops;
  const SequenceRows& rows;
  int64_t longest, C, NH, HS, head;
  KeptRows keys{decode, true, HS}, values{decode, false, HS};
  size_t key_bytes = keys.page_bytes(), value_bytes = values.page_bytes();              // of a page
  int64_t end = rows.position + rows.count;                                             // its positions
  int64_t width = std::min(longest, (end + kQueryRows - 1) / kQueryRows * kQueryRows);  // keys of its last block

  int64_t keys_of(int64_t block) const { return std::min(longest, (block + 1) * kQueryRows); }
  int64_t query_row() const { return ops.widens() ? HS : 3 * C; }
  ProductShape scores(int64_t block, int64_t count) const {
    return {count, HS, std::min(keys_of(block), end), by_rows(query_row()), transposed(HS), width, false, ops.native_bfloat16_};
  }
  ProductShape output(int64_t block, int64_t count) const {
    return {count, keys_of(block), HS, by_rows(width), by_rows(HS), HS, false, ops.native_bfloat16_};
  }

  // The memory that `run` computes in, piece by piece; lay_out over nothing tells the size.
  struct Room {
    std::byte *packed_keys, *packed_values, *free, *squares;
    float *p, *y, *wide, *sums;  // (kQueryRows, width), (kQueryRows, HS) twice, (kQueryRows)
    void* rounded;               // p as operands
  };
  size_t lay_out(Room& room, std::byte* memory) const {
    size_t used = 0;
    const auto take = [&](size_t bytes) {
      std::byte* const piece = memory == nullptr ? nullptr : memory + used;
      used += aligned(bytes);
      return piece;
    };
    const auto floats = [&](int64_t count) {
      return reinterpret_cast<float*>(take(static_cast<size_t>(count) * sizeof(float)));
    };
    size_t most_keys = 0, most_values = 0;
    for (int64_t block = rows.position / kQueryRows; block * kQueryRows < end; ++block) {
      most_keys = std::max(most_keys, decode.kept_product(scores(block, 1)).packed_bytes());
      most_values = std::max(most_values, decode.kept_product(output(block, 1)).packed_bytes());
    }
    room.packed_keys = take(most_keys);
    room.packed_values = take(most_values);
    room.free = take(std::max(keys.room_bytes(), values.room_bytes()));
    room.squares = take(std::max(key_bytes, value_bytes));
    room.p = floats(kQueryRows * width);
    room.y = floats(kQueryRows * HS);
    room.wide = floats(kQueryRows * HS);
    room.sums = floats(kQueryRows);
    room.rounded = ops.native_bfloat16_ ? take(static_cast<size_t>(kQueryRows * width) * ops.operand_size_) : nullptr;
    if (room.rounded == nullptr) room.rounded = room.p;
    return used;
  }

  const void* qkv_at(const Act* qkv, int64_t position, int64_t part) const {
    return ops.at(qkv, (rows.first_row + position - rows.position) * 3 * C + part * C + head * HS);
  }
  // A page has its heads one after the other, keys before values.
  std::byte* keys_in(std::byte* pages, int64_t page) const {
    return pages + static_cast<size_t>(rows.pages[page] * NH + head) * (key_bytes + value_bytes);
  }
  std::byte* values_in(std::byte* pages, int64_t page) const { return keys_in(pages, page) + key_bytes; }

  void keep(std::byte* pages, const Act* qkv, std::byte* free) const {
    const size_t bytes = keys.row_bytes();
    for (int64_t t = rows.position; t < end; ++t) {
      const int64_t page = t / kPageTokens, row = t % kPageTokens;
      std::byte *const k = keys_in(pages, page), *const v = values_in(pages, page);
      std::memcpy(k + static_cast<size_t>(row) * bytes, qkv_at(qkv, t, 1), bytes);
      std::memcpy(v + static_cast<size_t>(row) * bytes, qkv_at(qkv, t, 2), bytes);
      if (row + 1 < kPageTokens) continue;
      keys.pack(k, k, kPageTokens, free);
      values.pack(v, v, kPageTokens, free);
    }
  }
  void place(std::byte* packed, const Product& product, const KeptRows& kept, int64_t page, const std::byte* there,
             const Room& room) const {
    const int64_t count = std::min(kPageTokens, end - page * kPageTokens);
    if (count < kPageTokens) kept.pack(room.squares, there, count, room.free);
    kept.place(packed, product, page, count < kPageTokens ? room.squares : there);
  }
  // The operands of a block: its keys and values, and zeros for values that nobody sees yet.
  void gather(std::byte* pages, const Product& scores, const Product& output, const Room& room) const {
    for (int64_t page = 0; page * kPageTokens < output.shape().k; ++page) {
      if (page * kPageTokens >= end) {
        values.place(room.packed_values, output, page, nullptr);
        continue;
      }
      place(room.packed_keys, scores, keys, page, keys_in(pages, page), room);
      place(room.packed_values, output, values, page, values_in(pages, page), room);
    }
  }

  void run(Act* out, std::byte* pages, const Act* qkv, std::byte* memory, int thread) const {
    Room room{};
    lay_out(room, memory);
    const float scale = 1.0f / std::sqrt(static_cast<float>(HS));
    keep(pages, qkv, room.free);
    for (int64_t first = rows.position; first < end;) {
      const int64_t block = first / kQueryRows, behind = std::min(end, (block + 1) * kQueryRows), count = behind - first;
      const void* q = qkv_at(qkv, first, 0);
      if (ops.widens()) {
        for (int64_t r = 0; r < count; ++r) ops.elements_.to_float(room.wide + r * HS, qkv_at(qkv, first + r, 0), HS);
        q = room.wide;
      }
      const Product of_scores = decode.kept_product(scores(block, count)),
                    of_output = decode.kept_product(output(block, count));
      gather(pages, of_scores, of_output, room);
      of_scores.run_packed(thread, q, room.packed_keys, room.p);
      for (int64_t r = 0; r < count; ++r) {
        float* const row = room.p + r * width;
        ops.vectors_.floats.softmax_row(row, room.sums + r, scale, first + r + 1, keys_of(block));
        if (ops.native_bfloat16_)
          ops.operands_.from_float(static_cast<std::byte*>(room.rounded) + static_cast<size_t>(r * width) * ops.operand_size_,
                                   row, keys_of(block));
      }
      of_output.run_packed(thread, room.rounded, room.packed_values, room.y);
      for (int64_t r = 0; r < count; ++r) {
        ops.elements_.scaled_from_float(ops.at(out, (rows.first_row + first + r - rows.position) * C + head * HS),
                                        room.y + r * HS, 1.0f / room.sums[r], HS);
      }
      first = behind;
    }
  }
};

void CpuOps::Decode::attention(Act* out, std::byte* pages, const Act* qkv, std::span<const SequenceRows> sequences,
                               int64_t longest, int64_t C, int64_t NH) {
  const int64_t HS = C / NH;
  size_t bytes = 0;
  for (const SequenceRows& rows : sequences) {
    const Head head{*this, ops_, rows, longest, C, NH, HS, 0};
    Head::Room nowhere{};
    bytes = std::max(bytes, head.lay_out(nowhere, nullptr));
    for (int64_t block = rows.position / kQueryRows; block * kQueryRows < head.end; ++block) {
      const int64_t most = std::min(kQueryRows, rows.count);
      ops_.products_.prepare(head.scores(block, most));
      ops_.products_.prepare(head.output(block, most));
    }
  }
  for (Scratch& scratch : ops_.per_thread_) scratch.reserve(bytes);
  ops_.team_.for_each(static_cast<int64_t>(sequences.size()) * NH, [&](int64_t task, int thread) {
    const Head head{*this, ops_, sequences[static_cast<size_t>(task / NH)], longest, C, NH, HS, task % NH};
    head.run(out, pages, qkv, static_cast<std::byte*>(ops_.per_thread_[static_cast<size_t>(thread)].reserve(0)), thread);
  });
}

}  // namespace holdfast::kernels::cpu
