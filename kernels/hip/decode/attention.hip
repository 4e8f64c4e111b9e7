// The hip op set's attention to kept keys and values: keeps a call's, then attends to all.
#include "kernels/hip/decode/attention.h"

#include <algorithm>

#include "kernels/hip/attention_sizes.h"
#include "kernels/hip/decode/decode.h"

namespace holdfast::kernels::hip {

// A call's tiles, and its sequences' lists of pages, one after the other. On the device.
template <typename Element>
struct HipOps<Element>::Decode::Tables {
  const TileOfCall* tiles;
  int64_t count;  // of tiles
  const int64_t* lists;
};

template <typename Element>
auto HipOps<Element>::Decode::tables_of(std::span<const SequenceRows> sequences, int64_t rows_of_tile) -> Tables {
  constexpr int64_t kWords = sizeof(TileOfCall) / sizeof(int64_t);
  static_assert(sizeof(TileOfCall) == kWords * sizeof(int64_t));
  std::vector<int64_t> words, lists;
  for (const SequenceRows& rows : sequences) {
    const int64_t end = rows.position + rows.count;
    for (int64_t first = rows.position / rows_of_tile * rows_of_tile; first < end; first += rows_of_tile) {
      const auto pages = static_cast<int64_t>(lists.size());
      words.insert(words.end(), {first, rows.position, end, rows.first_row, pages});
    }
    lists.insert(lists.end(), rows.pages, rows.pages + blocks_for(end, kPageTokens));
  }
  const auto of_tiles = static_cast<int64_t>(words.size());
  words.insert(words.end(), lists.begin(), lists.end());
  auto* const there = tables_.template get<int64_t>(static_cast<int64_t>(words.size()));
  if (words != there_ || moves_there_ != tables_.moves()) {
    ops_.copy_to_device(there, words.data(), words.size() * sizeof(int64_t));
    there_ = std::move(words);
    moves_there_ = tables_.moves();
  }
  return {reinterpret_cast<const TileOfCall*>(there), of_tiles / kWords, there + of_tiles};
}

template <typename Element>
size_t HipOps<Element>::Decode::page_bytes(int64_t C, int64_t) const {
  return static_cast<size_t>(2 * kPageTokens * C) * sizeof(Element);
}

template <typename Element>
void HipOps<Element>::Decode::attention(Act* out, std::byte* pages, const Act* qkv, std::span<const SequenceRows> sequences,
                                        int64_t longest, int64_t C, int64_t NH) {
  const AttentionShape shape = shape_of(longest, C, NH);
  auto* const to = reinterpret_cast<Element*>(out);
  auto* const kept = reinterpret_cast<Element*>(pages);
  const auto* from = reinterpret_cast<const Element*>(qkv);
  ops_.work();
  const auto keep = [&](int rows_of_tile) {
    const Tables tables = tables_of(sequences, rows_of_tile);
    launch(stream(), "keys and values", keep_rows<Element>, tables.count * NH, kAttentionThreads, kept, from, tables.tiles,
           tables.lists, rows_of_tile, shape);
    return tables;
  };
  if (is_chained<Element>(ops_.properties_, shape.HS)) {
    const Tables tables = keep(kChainedRows);
    return with_chained_sizes<Element>(ops_.properties_.wave, shape.HS, [&]<int Wave, int Width>() {
      launch(stream(), "attention in pages", attention_in_pages_chained<Element, Wave, Width>, tables.count * NH,
             kChainedRows / kTile * Wave, to, kept, from, tables.tiles, tables.lists, shape);
    });
  }
  with_sizes(ops_.properties_.wave, shape.HS, [&]<int Wave, int Width>() {
    constexpr int kRows = rows_forward<Element, Width>;
    const Tables tables = keep(kRows);
    launch(stream(), "attention in pages", attention_in_pages<Element, Wave, Width, kRows>, tables.count * NH,
           kAttentionThreads, to, kept, from, tables.tiles, tables.lists, shape);
  });
}

template class HipOps<float>;
template class HipOps<BFloat16>;
template class HipOps<Float16>;

}  // namespace holdfast::kernels::hip
