// Causal self-attention by tiles of queries and keys (Dao et al. 2022, algorithms 1 and 4): no (T, T) matrix in memory. The
// formulas are those of kernels/ref/attention.h, where layouts are, too. attention_chained.h has the faster form for 16 bits on
// matrix units.
//
// A block has one tile of one head: of queries in the forward pass and for dq, of keys for dk and dv, and goes over the tiles
// of the others in their order. No sums are shared between blocks, so there is nothing to be atomic. Limits: HS up to Width,
// which is 32, 64 or 128.
#pragma once

#include "kernels/hip/dropout.h"
#include "kernels/hip/elements.h"
#include "kernels/hip/matrix_tile.h"
#include "kernels/hip/runtime.h"

namespace holdfast::kernels::hip {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kAttentionPadding = 8;  // elements: rows begin at multiples of 16 bytes, in different banks

struct AttentionShape {
  int64_t T, C, NH;
  int HS;
  float scale;   // of scores
  float scale2;  // the same for powers of two: times log2(e)
  __device__ int64_t tiles(int rows) const { return (T + rows - 1) / rows; }
  __device__ int64_t out(int64_t head, int64_t t) const { return (head / NH * T + t) * C + head % NH * HS; }
};

// Sixteen bytes of elements.
template <typename Element>
struct Elements {
  Element x[16 / sizeof(Element)];
};

template <typename Element>
inline constexpr int kVectorOf = 16 / static_cast<int>(sizeof(Element));  // elements that are read and written at once
// Whether all rows can be: heads begin at multiples of 16 bytes in every usual model.
template <typename Element>
__device__ inline bool are_in_vectors(const Element* data, int64_t stride, const AttentionShape& shape) {
  constexpr int kVector = kVectorOf<Element>;
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride % kVector == 0 && shape.HS % kVector == 0;
}
// Rows of a head are of any type with these: has(t), whether row t is there; row(t), which is read and written only then; and
// in_vectors(). A row that is not there is read as zeros.
template <typename Rows>
__device__ inline Words vector_of_row(const Rows& x, int64_t t, int column, const AttentionShape& shape) {
  using Element = std::remove_cvref_t<decltype(*x.row(t))>;
  constexpr int kVector = kVectorOf<Element>;
  Words words = {};
  if (!x.has(t, shape) || column >= shape.HS) return words;
  if (x.in_vectors(shape)) return *reinterpret_cast<const Words*>(x.row(t) + column);
  Element elements[kVector] = {};
  for (int e = 0; e < kVector && column + e < shape.HS; ++e) elements[e] = x.row(t)[column + e];
  __builtin_memcpy(&words, elements, sizeof words);
  return words;
}

// The rows of one head, T of HS elements: row t begins at data + t * stride. Made once a block, for finding a head takes
// divisions of 64 bits.
template <typename Element>
struct RowsOfHead {
  Element* data;
  int64_t stride;
  __device__ Element* row(int64_t t) const { return data + t * stride; }

  __device__ bool has(int64_t t, const AttentionShape& shape) const { return t < shape.T; }
  __device__ bool in_vectors(const AttentionShape& shape) const { return are_in_vectors(data, stride, shape); }
  // kVectorOf elements of row t from `column` on, a multiple of that; zeros beyond T and HS.
  __device__ Words vector(int64_t t, int column, const AttentionShape& shape) const {
    return vector_of_row(*this, t, column, shape);
  }
};

// A head's q, k and v in qkv (B, T, 3C), or their gradients.
template <typename Element>
struct HeadOfQkv {
  Element* first;
  int64_t C;
  __device__ HeadOfQkv(Element* qkv, const AttentionShape& shape, int64_t head)
      : first(qkv + head / shape.NH * shape.T * 3 * shape.C + head % shape.NH * shape.HS), C(shape.C) {}
  __device__ RowsOfHead<Element> q() const { return {first, 3 * C}; }
  __device__ RowsOfHead<Element> k() const { return {first + C, 3 * C}; }
  __device__ RowsOfHead<Element> v() const { return {first + 2 * C, 3 * C}; }
};

// A head's rows of out (B, T, C), or of its gradient.
template <typename Element>
__device__ inline RowsOfHead<Element> head_of_out(Element* out, const AttentionShape& shape, int64_t head) {
  return {out + shape.out(head, 0), shape.C};
}

// The tile of this block: heads times tiles.
struct TilePlace {
  int64_t head, first;
};
__device__ inline TilePlace place_of_block(const AttentionShape& shape, int rows) {
  const int64_t tiles = shape.tiles(rows);
  return {static_cast<int64_t>(blockIdx.x) / tiles, static_cast<int64_t>(blockIdx.x) % tiles * rows};
}

template <typename Element, int Wave, int Width, int Rows>
struct AttentionTiles {
  using Tile = MatrixTile<Element, Wave>;
  static constexpr int kStride = Width + kAttentionPadding;      // of a tile of rows of a head, in elements
  static constexpr int kScoreStride = Rows + kAttentionPadding;  // of a tile of scores
  static constexpr int kWaves = kAttentionThreads / Wave;
  using HeadRows = Element[Rows * kStride];
  using Scores = float[Rows * kScoreStride];
  using Weights = Element[Rows * kScoreStride];

  // Rows first .. first + Rows of x; zeros beyond T and HS.
  template <typename RowsOfX>
  __device__ static void load(Element* to, const RowsOfX& x, const AttentionShape& shape, int64_t first) {
    constexpr int kVector = kVectorOf<Element>, kAcross = Width / kVector;
    HOLDFAST_KEEP_LOOP
    for (int i = static_cast<int>(threadIdx.x); i < Rows * kAcross; i += kAttentionThreads) {
      const int row = i / kAcross, column = i % kAcross * kVector;
      *reinterpret_cast<Words*>(to + row * kStride + column) = x.vector(first + row, column, shape);
    }
  }

  // The 16 x 16 tiles of a product (Rows, Columns) that this wave has: every kWaves-th.
  template <int Columns>
  static constexpr int tiles_of_wave = (Rows / kTile * (Columns / kTile) + kWaves - 1) / kWaves;
  __device__ static int wave() { return static_cast<int>(threadIdx.x) / Wave; }

  // scores (Rows, Rows) = a (Rows, Width) * b (Rows, Width)^T
  __device__ static void scores(float* to, const Element* a, const Element* b) {
    constexpr int kAcross = Rows / kTile;
    for (int tile = wave(); tile < kAcross * kAcross; tile += kWaves) {
      const int row = tile / kAcross * kTile, column = tile % kAcross * kTile;
      typename Tile::Sums sums = {};
      HOLDFAST_UNROLL
      for (int k = 0; k < Width; k += kTile) {
        reconverge();
        Tile::multiply(sums, Tile::load_a(a + row * kStride + k, kStride), Tile::load_b(b + column * kStride + k, kStride));
      }
      const int lane = wave_lane<Wave>();
      HOLDFAST_UNROLL
      for (int e = 0; e < Tile::kSums; ++e)
        to[(row + Tile::row(lane, e)) * kScoreStride + column + Tile::column(lane, e)] = sums.c[e];
    }
  }

  // Sums (Rows, Width) += weights (Rows, Rows) * x (Rows, Width); with `Transposed` weights^T. In registers.
  struct Accumulated {
    typename Tile::Sums sums[tiles_of_wave<Width>] = {};

    __device__ static int row(int i) { return (wave() + i * kWaves) / (Width / kTile) * kTile; }
    __device__ static int column(int i) { return (wave() + i * kWaves) % (Width / kTile) * kTile; }

    template <bool Transposed>
    __device__ void add(const Element* weights, const Element* x) {
      HOLDFAST_UNROLL
      for (int i = 0; i < tiles_of_wave<Width>; ++i) {
        if (row(i) >= Rows) break;
        for (int k = 0; k < Rows; k += kTile) {
          const auto a = Transposed ? Tile::template load_a<true>(weights + k * kScoreStride + row(i), kScoreStride)
                                    : Tile::template load_a<false>(weights + row(i) * kScoreStride + k, kScoreStride);
          Tile::multiply(sums[i], a, Tile::template load_b<true>(x + k * kStride + column(i), kStride));
        }
      }
    }
    // Calls what(row, column, sum) for each of this lane's.
    template <typename What>
    __device__ void each(What what) {
      const int lane = wave_lane<Wave>();
      HOLDFAST_UNROLL
      for (int i = 0; i < tiles_of_wave<Width>; ++i) {
        if (row(i) >= Rows) break;
        HOLDFAST_UNROLL
        for (int e = 0; e < Tile::kSums; ++e)
          what(row(i) + Tile::row(lane, e), column(i) + Tile::column(lane, e), sums[i].c[e]);
      }
    }
  };
};

// A block's work: the tile of queries from `first` on of one head, whose rows `own` has as q(), k() and v(). Into `to`, and
// unless it is null logsumexp (T). A query's bits do not depend on the other rows of its tile. `drawn`: of the head's queries.
template <typename Element, int Wave, int Width, int Rows, typename RowsOfOut, typename Head, typename Drawn = NoDropout>
__device__ void attend(const RowsOfOut& to, float* logsumexp, const Head& own, const AttentionShape& shape, int64_t first,
                       const Drawn& drawn = {}) {
  using Tiles = AttentionTiles<Element, Wave, Width, Rows>;
  HOLDFAST_SHARED(typename Tiles::HeadRows, q);
  HOLDFAST_SHARED(typename Tiles::HeadRows, kv);  // keys, then values
  HOLDFAST_SHARED(typename Tiles::Scores, s);
  HOLDFAST_SHARED(typename Tiles::Weights, p);
  HOLDFAST_SHARED(float[Rows], rescale);  // the factor for the sums so far; in the end 1 / sum
  HOLDFAST_SHARED(float[Rows], largest);  // times scale2; and these of the keys so far: in registers they would be too many
  HOLDFAST_SHARED(float[Rows], total);
  constexpr int kGroups = kAttentionThreads / kLanes, kRowsOfGroup = Rows / kGroups;
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  for (int row = static_cast<int>(threadIdx.x); row < Rows; row += kAttentionThreads) {
    largest[row] = -INFINITY;
    total[row] = 0;
  }
  typename Tiles::Accumulated sums;
  Tiles::load(q, own.q(), shape, first);
  for (int64_t key = 0; key <= first; key += Rows) {
    barrier();
    Tiles::load(kv, own.k(), shape, key);
    barrier();
    Tiles::scores(s, q, kv);
    barrier();
    Tiles::load(kv, own.v(), shape, key);
    const auto ahead = static_cast<int>(first - key < Rows ? first - key : Rows);
    HOLDFAST_KEEP_LOOP
    for (int row = group * kRowsOfGroup; row < (group + 1) * kRowsOfGroup; ++row) {
      const float* score = s + row * Tiles::kScoreStride;
      const int keys = ahead + row + 1;  // of this tile that the query sees
      float tile_largest = -INFINITY;
      HOLDFAST_UNROLL
      for (int u = lane(); u < Rows; u += kLanes) tile_largest = u < keys ? fmaxf(tile_largest, score[u]) : tile_largest;
      const float before = largest[row], now = fmaxf(before, largest_of_lanes(tile_largest) * shape.scale2);
      float tile_sum = 0;
      const auto drawn_of_row = drawn.key(first + row);
      HOLDFAST_UNROLL
      for (int u = lane(); u < Rows; u += kLanes) {
        const float weight = u < keys ? exp2_of(fmaf(score[u], shape.scale2, -now)) : 0.0F;
        tile_sum += weight;
        p[row * Tiles::kScoreStride + u] = narrow<Element>(weight * drawn.factor(drawn_of_row, key + u));
      }
      tile_sum = sum_of_lanes(tile_sum);
      if (lane() == 0) {
        rescale[row] = exp2_of(before - now);
        total[row] = total[row] * rescale[row] + tile_sum;
        largest[row] = now;
      }
    }
    barrier();
    sums.each([&](int row, int, float& sum) { sum *= rescale[row]; });
    sums.template add<false>(p, kv);
  }
  barrier();
  for (int row = static_cast<int>(threadIdx.x); row < Rows; row += kAttentionThreads) {
    rescale[row] = 1.0F / total[row];
    if (logsumexp != nullptr && first + row < shape.T) logsumexp[first + row] = largest[row] * kLn2 + logf(total[row]);
  }
  barrier();
  sums.each([&](int row, int column, float& sum) {
    if (to.has(first + row, shape) && column < shape.HS) to.row(first + row)[column] = narrow<Element>(sum * rescale[row]);
  });
}

// out and logsumexp (B, NH, T). Blocks: heads times tiles of queries.
template <typename Element, int Wave, int Width, int Rows, typename Dropped>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_forward(Element* out, float* logsumexp, const Element* qkv, AttentionShape shape, Dropped dropped) {
  if constexpr (is_wave_of_device<Wave>) {
    const auto [head, first] = place_of_block(shape, Rows);
    attend<Element, Wave, Width, Rows>(head_of_out(out, shape, head), logsumexp + head * shape.T,
                                       HeadOfQkv<const Element>(qkv, shape, head), shape, first,
                                       dropped.of_rows(head * shape.T));
  } else {
    wrong_wave();
  }
}

inline constexpr int kDotLanes = 8;  // of a row

// D[head, t] = dout . out, kDotLanes lanes a row. Blocks: rows by kThreads / kDotLanes.
template <typename Element>
__global__ void attention_dot(float* D, const Element* dout, const Element* out, int64_t rows, AttentionShape shape) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * (blockDim.x / kDotLanes) + static_cast<int64_t>(threadIdx.x) / kDotLanes;
  const int64_t row = r < rows ? r : rows - 1, head = row / shape.T, t = row % shape.T;  // every lane comes to the exchanges
  const RowsOfHead<const Element> a = head_of_out(dout, shape, head), b = head_of_out(out, shape, head);
  constexpr int kVector = kVectorOf<Element>;
  float sum = 0;
  for (int column = lane() % kDotLanes * kVector; column < shape.HS; column += kDotLanes * kVector) {
    const auto x = bits_as<Elements<Element>>(a.vector(t, column, shape)),
               y = bits_as<Elements<Element>>(b.vector(t, column, shape));
    HOLDFAST_UNROLL
    for (int i = 0; i < kVector; ++i) sum += widen(x.x[i]) * widen(y.x[i]);
  }
  for (int distance = kDotLanes / 2; distance > 0; distance /= 2) sum += from_lane(sum, lane() ^ distance);
  if (r < rows && lane() % kDotLanes == 0) D[r] = sum;
}

// p f and ds = p (f dp - D) scale of a tile, as elements, from s = q k^T and dp = dout v^T, where f are the factors of what is
// drawn. Zero where the key is of the future, and for queries beyond T.
template <typename Tiles, int Rows, typename Element, typename Drawn>
__device__ void weights_of_tile(Element* p, Element* ds, const float* s, const float* dp, const float* logsumexp,
                                const float* D, const AttentionShape& shape, int64_t head, int64_t query, int64_t key,
                                const Drawn& drawn) {
  const auto rows = static_cast<int>(shape.T - query < Rows ? shape.T - query : Rows);
  const auto ahead = static_cast<int>(query - key < Rows ? query - key : Rows);  // row r sees the keys up to r + ahead
  const float* const normalizers = logsumexp + head * shape.T + query;
  const float* const dots = D + head * shape.T + query;
  for (int i = static_cast<int>(threadIdx.x); i < Rows * Rows; i += kAttentionThreads) {
    const int row = i / Rows, column = i % Rows, at = row * Tiles::kScoreStride + column;
    float weight = 0, d = 0;
    if (row < rows && column <= row + ahead) {
      const float factor = drawn.factor(drawn.key(query + row), key + column);
      weight = exp2_of(fmaf(s[at], shape.scale2, -normalizers[row] * kLog2E));
      d = weight * (dp[at] * factor - dots[row]) * shape.scale;
      weight *= factor;
    }
    if (p != nullptr) p[at] = narrow<Element>(weight);
    ds[at] = narrow<Element>(d);
  }
}

// dq. Blocks: heads times tiles of queries.
template <typename Element, int Wave, int Width, int Rows, typename Dropped>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_backward_queries(Element* dqkv, const Element* dout, const Element* qkv, const float* logsumexp, const float* D,
                               AttentionShape shape, Dropped dropped) {
  if constexpr (is_wave_of_device<Wave>) {
    using Tiles = AttentionTiles<Element, Wave, Width, Rows>;
    HOLDFAST_SHARED(typename Tiles::HeadRows, q);
    HOLDFAST_SHARED(typename Tiles::HeadRows, dy);
    HOLDFAST_SHARED(typename Tiles::HeadRows, kv);  // values, then keys
    HOLDFAST_SHARED(typename Tiles::Scores, s);
    HOLDFAST_SHARED(typename Tiles::Scores, dp);
    HOLDFAST_SHARED(typename Tiles::Weights, ds);
    const TilePlace place = place_of_block(shape, Rows);
    const int64_t head = place.head, first = place.first;
    const auto drawn = dropped.of_rows(head * shape.T);
    typename Tiles::Accumulated dq;
    const HeadOfQkv<const Element> own(qkv, shape, head);
    Tiles::load(q, own.q(), shape, first);
    Tiles::load(dy, head_of_out(dout, shape, head), shape, first);
    for (int64_t key = 0; key <= first; key += Rows) {
      barrier();
      Tiles::load(kv, own.v(), shape, key);
      barrier();
      Tiles::scores(dp, dy, kv);
      barrier();
      Tiles::load(kv, own.k(), shape, key);
      barrier();
      Tiles::scores(s, q, kv);
      barrier();
      weights_of_tile<Tiles, Rows>(static_cast<Element*>(nullptr), ds, s, dp, logsumexp, D, shape, head, first, key, drawn);
      barrier();
      dq.template add<false>(ds, kv);
    }
    const RowsOfHead<Element> to = HeadOfQkv<Element>(dqkv, shape, head).q();
    dq.each([&](int row, int column, float& sum) {
      if (first + row < shape.T && column < shape.HS) to.row(first + row)[column] = narrow<Element>(sum);
    });
  } else {
    wrong_wave();
  }
}

// dk and dv. Blocks: heads times tiles of keys.
template <typename Element, int Wave, int Width, int Rows, typename Dropped>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_backward_keys(Element* dqkv, const Element* dout, const Element* qkv, const float* logsumexp, const float* D,
                            AttentionShape shape, Dropped dropped) {
  if constexpr (is_wave_of_device<Wave>) {
    using Tiles = AttentionTiles<Element, Wave, Width, Rows>;
    HOLDFAST_SHARED(typename Tiles::HeadRows, kv);    // values, then keys
    HOLDFAST_SHARED(typename Tiles::HeadRows, rows);  // of dout, then of q
    HOLDFAST_SHARED(typename Tiles::Scores, s);
    HOLDFAST_SHARED(typename Tiles::Scores, dp);
    HOLDFAST_SHARED(typename Tiles::Weights, p);
    HOLDFAST_SHARED(typename Tiles::Weights, ds);
    const TilePlace place = place_of_block(shape, Rows);
    const int64_t head = place.head, first = place.first;
    const auto drawn = dropped.of_rows(head * shape.T);
    typename Tiles::Accumulated dk, dv;
    const HeadOfQkv<const Element> own(qkv, shape, head);
    const RowsOfHead<const Element> dy = head_of_out(dout, shape, head);
    for (int64_t query = first; query < shape.T; query += Rows) {
      barrier();
      Tiles::load(kv, own.v(), shape, first);
      Tiles::load(rows, dy, shape, query);
      barrier();
      Tiles::scores(dp, rows, kv);
      barrier();
      Tiles::load(kv, own.k(), shape, first);
      Tiles::load(rows, own.q(), shape, query);
      barrier();
      Tiles::scores(s, rows, kv);
      barrier();
      weights_of_tile<Tiles, Rows>(p, ds, s, dp, logsumexp, D, shape, head, query, first, drawn);
      barrier();
      dk.template add<true>(ds, rows);
      barrier();
      Tiles::load(rows, dy, shape, query);
      barrier();
      dv.template add<true>(p, rows);
    }
    const HeadOfQkv<Element> to(dqkv, shape, head);
    dk.each([&](int row, int column, float& sum) {
      if (first + row < shape.T && column < shape.HS) to.k().row(first + row)[column] = narrow<Element>(sum);
    });
    dv.each([&](int row, int column, float& sum) {
      if (first + row < shape.T && column < shape.HS) to.v().row(first + row)[column] = narrow<Element>(sum);
    });
  } else {
    wrong_wave();
  }
}

}  // namespace holdfast::kernels::hip
