// Attention to keys and values in pages: the forward pass's kernels (attention.h, attention_chained.h) over rows that lie
// elsewhere. The formulas are those of kernels/ref/attention.h.
//
// Layout: a page has its heads one after the other, keys (kPageTokens, HS) before values. A block has one tile of one head's
// queries, as in a forward pass: tiles begin at multiples of their rows in the sequence, so that a query meets the tiles of
// keys that it meets there, in the same order. Of its rows, those of the call are read and written; the others are zeros.
// Bytes: a sequence's keys and values are read once per tile of its queries, a page's rows of a head in one piece.
#pragma once

#include "kernels/decode_ops.h"
#include "kernels/hip/attention_chained.h"

namespace holdfast::kernels::hip {

// A tile of a sequence's queries, of which some are of the call. Words of 64 bits, which the host fills in.
struct TileOfCall {
  int64_t first;      // position of the tile's first row
  int64_t begin;      // of the sequence's first row in the call,
  int64_t end;        // and after its last
  int64_t first_row;  // of the sequence, among the call's rows
  int64_t pages;      // where the sequence's pages are in the list of all
};

// A head's rows of a tensor of the call, by position: rows begin .. end of a sequence.
template <typename Element>
struct RowsOfCall {
  Element* data;  // the row at `begin`
  int64_t begin, stride;
  __device__ Element* row(int64_t t) const { return data + (t - begin) * stride; }
  __device__ bool has(int64_t t, const AttentionShape& shape) const { return t >= begin && t < shape.T; }
  __device__ bool in_vectors(const AttentionShape& shape) const { return are_in_vectors(data, stride, shape); }
  __device__ Words vector(int64_t t, int column, const AttentionShape& shape) const {
    return vector_of_row(*this, t, column, shape);
  }
};

// A head's keys or values in pages.
template <typename Element>
struct RowsInPages {
  Element* data;         // the head's first row, in page 0
  const int64_t* pages;  // of the sequence
  int64_t page_stride;   // elements
  int HS;
  __device__ Element* row(int64_t t) const { return data + pages[t / kPageTokens] * page_stride + t % kPageTokens * HS; }
  __device__ bool has(int64_t t, const AttentionShape& shape) const { return t < shape.T; }
  __device__ bool in_vectors(const AttentionShape& shape) const { return are_in_vectors(data, HS, shape); }
  __device__ Words vector(int64_t t, int column, const AttentionShape& shape) const {
    return vector_of_row(*this, t, column, shape);
  }
};

// A block's tile and head, of a call whose sequences' rows are in qkv (N, 3C). `Kept` is Element, or const where pages are
// read only.
template <typename Element, typename Kept = const Element>
struct HeadInPages {
  TileOfCall tile;
  int64_t head, C;
  const Element* first_of_qkv;  // the head's query of the sequence's first row in the call
  RowsInPages<Kept> keys;

  __device__ HeadInPages(Kept* pages, const Element* qkv, const TileOfCall* tiles, const int64_t* lists,
                         const AttentionShape& shape)
      : tile(tiles[static_cast<int64_t>(blockIdx.x) / shape.NH]),
        head(static_cast<int64_t>(blockIdx.x) % shape.NH),
        C(shape.C),
        first_of_qkv(qkv + tile.first_row * 3 * C + head * shape.HS),
        keys{pages + head * 2 * kPageTokens * shape.HS, lists + tile.pages, 2 * kPageTokens * C, shape.HS} {}
  __device__ RowsOfCall<const Element> q() const { return {first_of_qkv, tile.begin, 3 * C}; }
  __device__ RowsInPages<Kept> k() const { return keys; }
  __device__ RowsInPages<Kept> v() const { return {keys.data + kPageTokens * keys.HS, keys.pages, keys.page_stride, keys.HS}; }
  __device__ RowsOfCall<Element> out(Element* out) const { return {out + tile.first_row * C + head * keys.HS, tile.begin, C}; }
};

// The keys and values of qkv (N, 3C), into their pages. Blocks: tiles times heads.
template <typename Element>
__global__ void keep_rows(Element* pages, const Element* qkv, const TileOfCall* tiles, const int64_t* lists, int rows_of_tile,
                          AttentionShape shape) {
  const HeadInPages<Element, Element> own(pages, qkv, tiles, lists, shape);
  const TileOfCall& tile = own.tile;
  const int64_t first = tile.first < tile.begin ? tile.begin : tile.first;
  const int64_t end = tile.first + rows_of_tile < tile.end ? tile.first + rows_of_tile : tile.end;
  const auto count = static_cast<int>(end - first) * shape.HS;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int64_t t = first + i / shape.HS;
    const int channel = i % shape.HS;
    const Element* const from = own.q().row(t) + channel;
    own.k().row(t)[channel] = from[shape.C];
    own.v().row(t)[channel] = from[2 * shape.C];
  }
}

// out (N, C). Blocks: tiles times heads.
template <typename Element, int Wave, int Width, int Rows>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_in_pages(Element* out, const Element* pages, const Element* qkv, const TileOfCall* tiles, const int64_t* lists,
                       AttentionShape shape) {
  if constexpr (is_wave_of_device<Wave>) {
    const HeadInPages<Element> own(pages, qkv, tiles, lists, shape);
    shape.T = own.tile.end;
    attend<Element, Wave, Width, Rows>(own.out(out), nullptr, own, shape, own.tile.first);
  } else {
    wrong_wave();
  }
}

// The same where a forward pass has attention_forward_chained.
template <typename Element, int Wave, int Width>
__global__ void __launch_bounds__(4 * Wave)
    attention_in_pages_chained(Element* out, const Element* pages, const Element* qkv, const TileOfCall* tiles,
                               const int64_t* lists, AttentionShape shape) {
  if constexpr (is_wave_of_device<Wave> && can_chain<Element, Wave, Width>) {
    const HeadInPages<Element> own(pages, qkv, tiles, lists, shape);
    shape.T = own.tile.end;
    attend_chained<Element, Wave, Width>(own.out(out), nullptr, own, shape, own.tile.first);
  } else {
    wrong_wave();
  }
}

}  // namespace holdfast::kernels::hip
