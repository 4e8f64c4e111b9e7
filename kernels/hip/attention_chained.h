// Causal self-attention where there are matrix units: scores and weights never leave a wave's registers (matrix_chain.h). The
// formulas are those of kernels/ref/attention.h; attention.h has the other form, and what both share.
//
// A block has 64 rows of one head, 16 for each of its four waves: of queries in the forward pass and for dq, of keys for dk and
// dv. It goes over the tiles of 64 of the others in their order, which it brings into shared memory: as they are for the first
// product, and turned, channels by rows, for the second where the matrix units of AMD want that. Limits: HS up to Width, 32 or
// 64; 16 bits.
#pragma once

#include "kernels/hip/attention.h"
#include "kernels/hip/matrix_chain.h"

namespace holdfast::kernels::hip {

inline constexpr int kChainedRows = 64;  // of a block, and streamed at a time

// Whether the tiles of the device that is compiled for can do it. The host asks the device's name (is_chained).
template <typename Element, int Wave, int Width>
inline constexpr bool can_chain = Width <= 64 && Chain<MatrixTile<Element, Wave>>::kExists;

template <typename Element, int Wave, int Width>
struct ChainedTiles {
  using Tile = MatrixTile<Element, Wave>;
  using Link = Chain<Tile>;
  using Operand = typename Tile::Operand;
  using Sums = typename Tile::Sums;
  static constexpr int kRows = kChainedRows, kThreads = kRows / kTile * Wave;
  static constexpr int kSubTiles = kRows / kTile;  // of the streamed rows
  static constexpr int kSteps = Width / kTile;     // of K in the first product; tiles of channels in the second
  static constexpr int kStride = Width + kAttentionPadding, kTurnedStride = kRows + kAttentionPadding;
  using Rows = Element[kRows * kStride];
  using Turned = Element[Link::kTurnsStreamed ? Width * kTurnedStride : 8];  // without turning nothing is there
  struct Fixed {
    Operand step[kSteps];
  };
  struct Out {
    Sums tile[kSteps];
  };

  __device__ static int wave() { return static_cast<int>(threadIdx.x) / Wave; }

  // Rows first .. first + kRows of x, as they are into `rows` and, if it is not null, turned into `turned`; zeros beyond T and
  // HS. A thread has vectors of neighbouring rows.
  template <typename RowsOfX>
  __device__ static void load(Element* rows, Element* turned, const RowsOfX& x, const AttentionShape& shape, int64_t first) {
    constexpr int kVector = 8, kAcross = Width / kVector, kAlong = kRows * kAcross / kThreads;
    const auto thread = static_cast<int>(threadIdx.x);
    const int column = thread % kAcross * kVector, row = thread / kAcross * kAlong;
    Words words[kAlong];
    HOLDFAST_UNROLL
    for (int i = 0; i < kAlong; ++i) words[i] = x.vector(first + row + i, column, shape);
    if (rows != nullptr) {
      HOLDFAST_UNROLL
      for (int i = 0; i < kAlong; ++i) *reinterpret_cast<Words*>(rows + (row + i) * kStride + column) = words[i];
    }
    if (turned == nullptr) return;
    struct [[gnu::may_alias]] alignas(kAlong * sizeof(Element)) Along {
      Element x[kAlong];
    };
    Element elements[kAlong][kVector];
    __builtin_memcpy(elements, words, sizeof elements);
    Element* const to = turned + column * kTurnedStride + (row / kTile ^ swizzle(column)) * kTile + row % kTile;
    HOLDFAST_UNROLL
    for (int e = 0; e < kVector; ++e) {
      Along along;
      HOLDFAST_UNROLL
      for (int i = 0; i < kAlong; ++i) along.x[i] = elements[i][e];
      *reinterpret_cast<Along*>(to + e * kTurnedStride) = along;
    }
  }
  // Where a channel's tile of 16 turned rows lies, among them: so that neighbouring threads have different banks.
  __device__ static int swizzle(int channel) { return channel / 8 % kSubTiles; }

  // This wave's 16 rows, as operands of the first product. By way of `rows`, which the block shares: two barriers.
  template <typename RowsOfX>
  __device__ static void load_fixed(Fixed& fixed, Element* rows, const RowsOfX& x, const AttentionShape& shape, int64_t first) {
    barrier();
    load(rows, nullptr, x, shape, first);
    barrier();
    HOLDFAST_UNROLL
    for (int k = 0; k < kSteps; ++k) fixed.step[k] = Link::load_fixed(rows + wave() * kTile * kStride + k * kTile, kStride);
  }

  // The scores of the fixed rows with the j-th tile of 16 streamed ones.
  __device__ static Sums scores(const Fixed& fixed, const Element* rows, int j) {
    Sums sums = {};
    HOLDFAST_UNROLL
    for (int k = 0; k < kSteps; ++k)
      Link::multiply(sums, fixed.step[k], Link::load_streamed(rows + j * kTile * kStride + k * kTile, kStride));
    return sums;
  }
  // out += weights times the j-th tile of 16 streamed rows.
  __device__ static void add(Out& out, const Element (&weights)[Tile::kSums], const Element* rows, const Element* turned,
                             int j) {
    const Operand fixed = Link::as_fixed(weights);
    HOLDFAST_UNROLL
    for (int c = 0; c < kSteps; ++c) {
      if constexpr (Link::kTurnsStreamed) {
        const int channel = c * kTile + wave_lane<Wave>() % kTile;  // of the operand's row that the lane has
        Link::multiply(out.tile[c], fixed,
                       Link::load_streamed(turned + c * kTile * kTurnedStride + (j ^ swizzle(channel)) * kTile, kTurnedStride));
      } else {
        Link::multiply(out.tile[c], fixed, Link::template load_streamed<true>(rows + j * kTile * kStride + c * kTile, kStride));
      }
    }
  }
  // Each fixed row times its factor.
  __device__ static void scale(Out& out, const float (&factors)[Link::kOwn]) {
    HOLDFAST_UNROLL
    for (int c = 0; c < kSteps; ++c) {
      HOLDFAST_UNROLL
      for (int i = 0; i < Tile::kSums; ++i) out.tile[c].c[i] *= factors[Link::own(i)];
    }
  }
  // Writes this wave's rows.
  template <typename RowsOfOut>
  __device__ static void store(const RowsOfOut& to, const Out& out, const AttentionShape& shape, int64_t first) {
    const int lane = wave_lane<Wave>();
    const bool in_vectors = to.in_vectors(shape);
    HOLDFAST_UNROLL
    for (int c = 0; c < kSteps; ++c) {
      HOLDFAST_UNROLL
      for (int i = 0; i < Tile::kSums; i += Link::kRun) {
        const int64_t row = first + wave() * kTile + Link::fixed(lane, i);
        const int column = c * kTile + Link::streamed(lane, i);
        if (!to.has(row, shape) || column >= shape.HS) continue;
        // Words, for the compiler to keep it one store of bfloat16: of elements it makes three, as the other branch has some,
        // too.
        struct [[gnu::may_alias]] alignas(Link::kRun * sizeof(Element)) Side {
          std::conditional_t<Link::kRun % 2 == 0, uint32_t, uint16_t> word[(Link::kRun + 1) / 2];
        };
        Element side[Link::kRun];
        HOLDFAST_UNROLL
        for (int r = 0; r < Link::kRun; ++r) side[r] = narrow<Element>(out.tile[c].c[i + r]);
        if (in_vectors) {
          *reinterpret_cast<Side*>(to.row(row) + column) = bits_of<Side>(side);
        } else {
          for (int r = 0; r < Link::kRun && column + r < shape.HS; ++r) to.row(row)[column + r] = side[r];
        }
      }
    }
  }
};

// A block's work, as attend() has it.
template <typename Element, int Wave, int Width, typename RowsOfOut, typename Head, typename Drawn = NoDropout>
__device__ void attend_chained(const RowsOfOut& to, float* logsumexp, const Head& own, const AttentionShape& shape,
                               int64_t first, const Drawn& drawn = {}) {
  using By = ChainedTiles<Element, Wave, Width>;
  using Link = typename By::Link;
  constexpr int kOwn = Link::kOwn, kSums = By::Tile::kSums;
  HOLDFAST_SHARED(typename By::Rows, k);
  HOLDFAST_SHARED(typename By::Rows, v);
  HOLDFAST_SHARED(typename By::Turned, v_turned);
  const int lane = wave_lane<Wave>(), wave = By::wave();
  typename By::Fixed q;
  By::load_fixed(q, k, own.q(), shape, first);
  typename By::Out sums = {};
  float largest[kOwn], total[kOwn], factor[kOwn];  // largest: times scale2; total: of this lane's keys
  typename Drawn::Key drawn_of_row[kOwn];
  HOLDFAST_UNROLL
  for (int o = 0; o < kOwn; ++o) {
    drawn_of_row[o] = drawn.key(first + wave * kTile + Link::fixed_of_own(lane, o));
    largest[o] = -INFINITY;
    total[o] = 0;
  }
  for (int64_t key = 0; key <= first; key += By::kRows) {
    barrier();
    By::load(k, nullptr, own.k(), shape, key);
    By::load(Link::kTurnsStreamed ? nullptr : v, Link::kTurnsStreamed ? v_turned : nullptr, own.v(), shape, key);
    barrier();
    const bool is_last = key == first;
    const int seen = is_last ? wave + 1 : By::kSubTiles;  // tiles of keys that the wave's queries see, the last one in part
    typename By::Sums s[By::kSubTiles];
    float now[kOwn];
    HOLDFAST_UNROLL
    for (int o = 0; o < kOwn; ++o) now[o] = -INFINITY;
    HOLDFAST_UNROLL
    for (int j = 0; j < By::kSubTiles; ++j) {
      if (j >= seen) continue;
      s[j] = By::scores(q, k, j);
      HOLDFAST_UNROLL
      for (int i = 0; i < kSums; ++i) {
        if (is_last && j == wave && Link::streamed(lane, i) > Link::fixed(lane, i)) s[j].c[i] = -INFINITY;
        now[Link::own(i)] = fmaxf(now[Link::own(i)], s[j].c[i]);
      }
    }
    HOLDFAST_UNROLL
    for (int o = 0; o < kOwn; ++o) {
      now[o] = fmaxf(largest[o], Link::over_streamed(now[o], Largest()) * shape.scale2);
      factor[o] = exp2_of(largest[o] - now[o]);
      largest[o] = now[o];
      total[o] *= factor[o];
    }
    By::scale(sums, factor);
    HOLDFAST_UNROLL
    for (int j = 0; j < By::kSubTiles; ++j) {
      if (j >= seen) continue;
      Element weights[kSums];
      HOLDFAST_UNROLL
      for (int i = 0; i < kSums; ++i) {
        const float weight = exp2_of(fmaf(s[j].c[i], shape.scale2, -largest[Link::own(i)]));
        total[Link::own(i)] += weight;
        const int64_t column = key + j * kTile + Link::streamed(lane, i);
        weights[i] = narrow<Element>(weight * drawn.factor(drawn_of_row[Link::own(i)], column));
      }
      By::add(sums, weights, v, v_turned, j);
    }
  }
  HOLDFAST_UNROLL
  for (int o = 0; o < kOwn; ++o) {
    const float all = Link::over_streamed(total[o], Sum());
    factor[o] = 1.0F / all;
    const int64_t query = first + wave * kTile + Link::fixed_of_own(lane, o);
    if (logsumexp != nullptr && Link::is_first_of_fixed(lane) && query < shape.T)
      logsumexp[query] = largest[o] * kLn2 + logf(all);
  }
  By::scale(sums, factor);
  By::store(to, sums, shape, first);
}

// out and logsumexp (B, NH, T). Blocks: heads times tiles of queries.
template <typename Element, int Wave, int Width, typename Dropped>
__global__ void __launch_bounds__(4 * Wave)
    attention_forward_chained(Element* out, float* logsumexp, const Element* qkv, AttentionShape shape, Dropped dropped) {
  if constexpr (is_wave_of_device<Wave> && can_chain<Element, Wave, Width>) {
    const auto [head, first] = place_of_block(shape, kChainedRows);
    attend_chained<Element, Wave, Width>(head_of_out(out, shape, head), logsumexp + head * shape.T,
                                         HeadOfQkv<const Element>(qkv, shape, head), shape, first,
                                         dropped.of_rows(head * shape.T));
  } else {
    wrong_wave();
  }
}

// dq. Blocks: heads times tiles of queries.
template <typename Element, int Wave, int Width, typename Dropped>
__global__ void __launch_bounds__(4 * Wave)
    attention_backward_queries_chained(Element* dqkv, const Element* dout, const Element* qkv, const float* logsumexp,
                                       const float* D, AttentionShape shape, Dropped dropped) {
  if constexpr (is_wave_of_device<Wave> && can_chain<Element, Wave, Width>) {
    using By = ChainedTiles<Element, Wave, Width>;
    using Link = typename By::Link;
    constexpr int kOwn = Link::kOwn, kSums = By::Tile::kSums;
    HOLDFAST_SHARED(typename By::Rows, k);
    HOLDFAST_SHARED(typename By::Rows, v);
    HOLDFAST_SHARED(typename By::Turned, k_turned);
    const TilePlace place = place_of_block(shape, By::kRows);
    const int64_t head = place.head, first = place.first;
    const HeadOfQkv<const Element> own(qkv, shape, head);
    const int lane = wave_lane<Wave>(), wave = By::wave();
    typename By::Fixed q, dy;
    By::load_fixed(q, k, own.q(), shape, first);
    By::load_fixed(dy, v, head_of_out(dout, shape, head), shape, first);
    const auto drawn = dropped.of_rows(head * shape.T);
    float offset[kOwn], dot[kOwn];  // of the exponent, in powers of two; D
    typename Dropped::Key drawn_of_row[kOwn];
    HOLDFAST_UNROLL
    for (int o = 0; o < kOwn; ++o) {
      const int64_t query = first + wave * kTile + Link::fixed_of_own(lane, o);
      drawn_of_row[o] = drawn.key(query);
      offset[o] = query < shape.T ? -logsumexp[head * shape.T + query] * kLog2E : 0.0F;
      dot[o] = query < shape.T ? D[head * shape.T + query] : 0.0F;
    }
    typename By::Out dq = {};
    for (int64_t key = 0; key <= first; key += By::kRows) {
      barrier();
      By::load(k, Link::kTurnsStreamed ? k_turned : nullptr, own.k(), shape, key);
      By::load(v, nullptr, own.v(), shape, key);
      barrier();
      const bool is_last = key == first;
      const int seen = is_last ? wave + 1 : By::kSubTiles;
      HOLDFAST_KEEP_LOOP
      for (int j = 0; j < seen; ++j) {
        const typename By::Sums s = By::scores(q, k, j), dp = By::scores(dy, v, j);
        Element ds[kSums];
        HOLDFAST_UNROLL
        for (int i = 0; i < kSums; ++i) {
          const bool counts = !(is_last && j == wave && Link::streamed(lane, i) > Link::fixed(lane, i));
          const float weight = exp2_of(fmaf(s.c[i], shape.scale2, offset[Link::own(i)]));
          const float factor = drawn.factor(drawn_of_row[Link::own(i)], key + j * kTile + Link::streamed(lane, i));
          ds[i] = narrow<Element>(counts ? weight * (dp.c[i] * factor - dot[Link::own(i)]) * shape.scale : 0.0F);
        }
        By::add(dq, ds, k, k_turned, j);
      }
    }
    By::store(HeadOfQkv<Element>(dqkv, shape, head).q(), dq, shape, first);
  } else {
    wrong_wave();
  }
}

// dk and dv. Blocks: heads times tiles of keys.
template <typename Element, int Wave, int Width, typename Dropped>
__global__ void __launch_bounds__(4 * Wave)
    attention_backward_keys_chained(Element* dqkv, const Element* dout, const Element* qkv, const float* logsumexp,
                                    const float* D, AttentionShape shape, Dropped dropped) {
  if constexpr (is_wave_of_device<Wave> && can_chain<Element, Wave, Width>) {
    using By = ChainedTiles<Element, Wave, Width>;
    using Link = typename By::Link;
    constexpr int kSums = By::Tile::kSums;
    HOLDFAST_SHARED(typename By::Rows, q);
    HOLDFAST_SHARED(typename By::Rows, dy);
    HOLDFAST_SHARED(typename By::Turned, q_turned);
    HOLDFAST_SHARED(typename By::Turned, dy_turned);
    HOLDFAST_SHARED(float[By::kRows], offsets);  // of the exponent, in powers of two
    HOLDFAST_SHARED(float[By::kRows], dots);     // D
    HOLDFAST_SHARED(typename Dropped::Key[By::kRows], drawn_of_rows);
    const TilePlace place = place_of_block(shape, By::kRows);
    const int64_t head = place.head, first = place.first;
    const HeadOfQkv<const Element> own(qkv, shape, head);
    const RowsOfHead<const Element> dout_rows = head_of_out(dout, shape, head);
    const int lane = wave_lane<Wave>(), wave = By::wave();
    typename By::Fixed k, v;
    By::load_fixed(k, q, own.k(), shape, first);
    By::load_fixed(v, dy, own.v(), shape, first);
    const auto drawn = dropped.of_rows(head * shape.T);
    typename By::Out dk = {}, dv = {};
    for (int64_t query = first; query < shape.T; query += By::kRows) {
      barrier();
      By::load(q, Link::kTurnsStreamed ? q_turned : nullptr, own.q(), shape, query);
      By::load(dy, Link::kTurnsStreamed ? dy_turned : nullptr, dout_rows, shape, query);
      for (int row = static_cast<int>(threadIdx.x); row < By::kRows; row += By::kThreads) {
        const bool is_there = query + row < shape.T;
        offsets[row] = is_there ? -logsumexp[head * shape.T + query + row] * kLog2E : -INFINITY;  // weights 0
        dots[row] = is_there ? D[head * shape.T + query + row] : 0.0F;
        drawn_of_rows[row] = drawn.key(query + row);
      }
      barrier();
      const bool is_first = query == first;
      HOLDFAST_KEEP_LOOP
      for (int j = is_first ? wave : 0; j < By::kSubTiles; ++j) {
        const typename By::Sums s = By::scores(k, q, j), dp = By::scores(v, dy, j);
        Element p[kSums], ds[kSums];
        HOLDFAST_UNROLL
        for (int i = 0; i < kSums; ++i) {
          const int streamed = Link::streamed(lane, i), row = j * kTile + streamed;
          const bool counts = !(is_first && j == wave && streamed < Link::fixed(lane, i));
          const float any = exp2_of(fmaf(s.c[i], shape.scale2, offsets[row])), weight = counts ? any : 0.0F;
          const float factor = drawn.factor(drawn_of_rows[row], first + wave * kTile + Link::fixed(lane, i));
          p[i] = narrow<Element>(weight * factor);
          ds[i] = narrow<Element>(weight * (dp.c[i] * factor - dots[row]) * shape.scale);
        }
        By::add(dv, p, dy, dy_turned, j);
        By::add(dk, ds, q, q_turned, j);
      }
    }
    const HeadOfQkv<Element> to(dqkv, shape, head);
    By::store(to.k(), dk, shape, first);
    By::store(to.v(), dv, shape, first);
  } else {
    wrong_wave();
  }
}

}  // namespace holdfast::kernels::hip
