// The matrix product: C (M, N) = A (M, K) * B (N, K)^T, each operand with either of its dimensions contiguous.
//
// A block computes a piece of C, 64 or 128 rows and columns, from strips along K that it brings into shared memory; the
// next strip is on its way into registers meanwhile. Where there are few pieces K is cut in parts, for blocks of their own.
// The epilogue decides where an element of C goes, and may ask for the sums of A's rows, which are A times ones: blocks of C's
// first columns multiply that, too. Promises: each element's terms are added in the order of K, in
// steps of 16, within a part, whatever the size of the piece. Operands begin where they like: without 16-byte alignment of rows
// their elements are read one by one.
#pragma once

#include <type_traits>

#include "kernels/hip/elements.h"
#include "kernels/hip/matrix_tile.h"

namespace holdfast::kernels::hip {

template <typename Element>
inline constexpr int strip_of = 128 / static_cast<int>(sizeof(Element));  // of K: a line of the cache
inline constexpr int kStripPadding = 8;                                   // elements: neighbouring rows lie in different banks

// An operand: (rows, K). Element (row, k) is at data[row * stride + k], or at data[k * stride + row] where rows are contiguous.
template <typename Element>
struct Operand {
  const Element* data;
  int64_t rows, stride;
};

// One operand's strips: from memory into registers, and from there into shared memory, where they lie by rows of k, or
// (ByColumns, for rows that are contiguous in memory) by columns.
template <typename Element, int Rows, bool RowsContiguous, bool ByColumns, int Threads>
class StripLoader {
 public:
  static constexpr int kStrip = strip_of<Element>;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(Element));
  static constexpr int kVectors = Rows * kStrip / kVector / Threads;  // of a thread
  static constexpr int kStride = (ByColumns ? Rows : kStrip) + kStripPadding;
  static constexpr int kElements = (ByColumns ? kStrip : Rows) * kStride;
  static_assert(Rows * kStrip % (kVector * Threads) == 0 && (RowsContiguous || !ByColumns));

  __device__ StripLoader(Operand<Element> from, int64_t first_row, int64_t K) : from_(from), first_(first_row), K_(K) {
    const bool aligned = reinterpret_cast<uintptr_t>(from.data) % 16 == 0 && from.stride % kVector == 0;
    whole_ = aligned && first_row + Rows <= from.rows;
  }
  // Into registers; zeros beyond the matrix.
  __device__ void fetch(int64_t k) {
    if (whole_ && k + kStrip <= K_) {
      HOLDFAST_UNROLL
      for (int i = 0; i < kVectors; ++i) {
        const Place at = place(i);
        const Element* source = from_.data + (RowsContiguous ? (k + at.k) * from_.stride + first_ + at.row
                                                             : (first_ + at.row) * from_.stride + k + at.k);
        held_[i] = *reinterpret_cast<const Words*>(source);
      }
    } else {
      HOLDFAST_UNROLL
      for (int i = 0; i < kVectors; ++i) held_[i] = one_by_one(place(i), k);
    }
    reconverge();
  }
  __device__ void store(Element* shared) const {
    if constexpr (RowsContiguous && !ByColumns) return store_turned(shared);
    HOLDFAST_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const Place at = place(i);
      *reinterpret_cast<Words*>(shared + (ByColumns ? at.k * kStride + at.row : at.row * kStride + at.k)) = held_[i];
    }
  }

 private:
  struct Place {
    int row, k;
  };
  // The first element of this thread's i-th vector within the strip. Neighbouring threads have neighbours in memory, but where
  // vectors are turned on their way to shared memory: there a thread's vectors are neighbours in k, and so are threads, for no
  // two to have the same bank.
  __device__ static Place place(int i) {
    const int number = static_cast<int>(threadIdx.x) + i * Threads;
    if constexpr (ByColumns) return {number % (Rows / kVector) * kVector, number / (Rows / kVector)};
    if constexpr (RowsContiguous) {
      constexpr int kAlong = kStrip / kVectors;
      const auto thread = static_cast<int>(threadIdx.x);
      return {thread / kAlong * kVector, thread % kAlong * kVectors + i};
    }
    return {number / (kStrip / kVector), number % (kStrip / kVector) * kVector};
  }
  // Of each of the vectors' rows, what lies side by side in k is stored at once.
  __device__ void store_turned(Element* shared) const {
    struct [[gnu::may_alias]] alignas(kVectors * sizeof(Element)) Along {
      Element k[kVectors];
    };
    Element elements[kVectors][kVector];
    __builtin_memcpy(elements, held_, sizeof elements);
    const Place at = place(0);
    HOLDFAST_UNROLL
    for (int e = 0; e < kVector; ++e) {
      Along along;
      HOLDFAST_UNROLL
      for (int i = 0; i < kVectors; ++i) along.k[i] = elements[i][e];
      *reinterpret_cast<Along*>(shared + (at.row + e) * kStride + at.k) = along;
    }
  }
  __device__ Words one_by_one(Place at, int64_t strip) const {
    const int64_t row = first_ + at.row, k = strip + at.k;
    const Element* source = from_.data + (RowsContiguous ? k * from_.stride + row : row * from_.stride + k);
    const int64_t left = RowsContiguous ? from_.rows - row : K_ - k;  // elements of the matrix from here on
    const bool is_there = RowsContiguous ? k < K_ : row < from_.rows;
    const int count = is_there ? static_cast<int>(left < kVector ? left : kVector) : 0;
    Element elements[kVector] = {};
    if (count > 0) {  // one branch for all: a mask for each element would take more scalar registers than there are
      HOLDFAST_UNROLL
      for (int e = 0; e < kVector; ++e) {
        const Element element = source[e < count ? e : 0];
        elements[e] = e < count ? element : Element{};
      }
    }
    Words words;
    __builtin_memcpy(&words, elements, sizeof words);
    return words;
  }

  Operand<Element> from_;
  int64_t first_, K_;
  bool whole_;  // rows can be read 16 bytes at a time
  Words held_[kVectors];
};

// A block's piece of C, and its threads.
template <int RowsOfPiece, int ColumnsOfPiece, int ThreadsOfBlock>
struct Cut {
  static constexpr int kRows = RowsOfPiece, kColumns = ColumnsOfPiece, kThreads = ThreadsOfBlock;
};
using SmallCut = Cut<64, 64, 128>;
using LargeCut = Cut<128, 128, 256>;

// Sums of the rows of `Tiles` tiles of A: A times ones. Every thread of the block makes one.
template <typename Element, int Wave, int Tiles>
struct RowSums {
  using Tile = MatrixTile<Element, Wave>;
  const Element* ones;
  typename Tile::Sums of[Tiles] = {};
  __device__ RowSums() {
    HOLDFAST_SHARED(Element[kTile * kTile], tile);
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += static_cast<int>(blockDim.x))
      tile[i] = narrow<Element>(1.0F);
    ones = tile;  // seen by all after the next barrier
  }
  // Of one step along K, whose tile i is load(i).
  template <typename Load>
  __device__ void add(Load load) {
    HOLDFAST_UNROLL
    for (int i = 0; i < Tiles; ++i) Tile::multiply(of[i], load(i), Tile::load_b(ones, kTile));
  }
};
template <typename Element, int Wave>
struct RowSums<Element, Wave, 0> {
  template <typename Load>
  __device__ void add(Load) {}
};

// A block's work: C's piece that begins at (row, column), over K from `begin` to `end`.
template <typename Element, int Wave, typename By, bool ARowsContiguous, bool BRowsContiguous, typename Epilogue>
__device__ void multiply_piece(Operand<Element> A, Operand<Element> B, int64_t row, int64_t column, int64_t K_begin,
                               int64_t K_end, const Epilogue& epilogue) {
  using Tile = MatrixTile<Element, Wave>;
  constexpr int kWaves = By::kThreads / Wave, kWaveRows = kWaves >= 4 ? kWaves / 2 : kWaves, kWaveColumns = kWaves / kWaveRows;
  constexpr int kTileRows = By::kRows / kWaveRows / kTile, kTileColumns = By::kColumns / kWaveColumns / kTile;
  constexpr bool kAByColumns = ARowsContiguous && Tile::kLikesColumns, kBByColumns = BRowsContiguous && Tile::kLikesColumns;
  using ALoader = StripLoader<Element, By::kRows, ARowsContiguous, kAByColumns, By::kThreads>;
  using BLoader = StripLoader<Element, By::kColumns, BRowsContiguous, kBByColumns, By::kThreads>;
  HOLDFAST_SHARED(Element[ALoader::kElements], a_strip);
  HOLDFAST_SHARED(Element[BLoader::kElements], b_strip);
  const int wave = static_cast<int>(threadIdx.x) / Wave;
  const int first_row = wave / kWaveColumns * kTileRows * kTile, first_column = wave % kWaveColumns * kTileColumns * kTile;
  typename Tile::Sums sums[kTileRows][kTileColumns] = {};
  ALoader a_loader(A, row, K_end);
  BLoader b_loader(B, column, K_end);
  // Where in a strip an operand's tile of 16 rows and 16 of k begins.
  const auto tile_at = [](bool by_columns, int stride, int first, int k) {
    return by_columns ? k * stride + first : first * stride + k;
  };
  const auto a_tile = [&](int i, int k) {
    const int at = tile_at(kAByColumns, ALoader::kStride, first_row + i * kTile, k);
    return Tile::template load_a<kAByColumns>(a_strip + at, ALoader::kStride);
  };
  constexpr int kStrip = strip_of<Element>;
  a_loader.fetch(K_begin);
  b_loader.fetch(K_begin);
  // Waves that have the same rows of C share their sums.
  constexpr int kSummed = Epilogue::kRowSums ? kTileRows / kWaveColumns : 0;
  static_assert(!Epilogue::kRowSums || kTileRows % kWaveColumns == 0);
  const int first_summed = wave % kWaveColumns * kSummed;
  const bool sums_rows = Epilogue::kRowSums && column == 0;
  RowSums<Element, Wave, kSummed> row_sums;
  const auto go_over_strips = [&](auto with_row_sums) {
    for (int64_t k = K_begin; k < K_end; k += kStrip) {
      barrier();
      a_loader.store(a_strip);
      b_loader.store(b_strip);
      barrier();
      if (k + kStrip < K_end) {
        a_loader.fetch(k + kStrip);
        b_loader.fetch(k + kStrip);
      }
      HOLDFAST_UNROLL
      for (int step = 0; step < kStrip; step += kTile) {
        typename Tile::Operand a[kTileRows];
        HOLDFAST_UNROLL
        for (int i = 0; i < kTileRows; ++i) a[i] = a_tile(i, step);
        if constexpr (decltype(with_row_sums)::value) row_sums.add([&](int i) { return a_tile(first_summed + i, step); });
        HOLDFAST_UNROLL
        for (int j = 0; j < kTileColumns; ++j) {
          const int at = tile_at(kBByColumns, BLoader::kStride, first_column + j * kTile, step);
          const auto b = Tile::template load_b<kBByColumns>(b_strip + at, BLoader::kStride);
          HOLDFAST_UNROLL
          for (int i = 0; i < kTileRows; ++i) Tile::multiply(sums[i][j], a[i], b);
        }
      }
    }
  };
  // Two loops, for a branch at each step would take more registers than there are.
  if constexpr (Epilogue::kRowSums) {
    sums_rows ? go_over_strips(std::true_type()) : go_over_strips(std::false_type());
  } else {
    go_over_strips(std::false_type());
  }
  const int lane = wave_lane<Wave>();
  HOLDFAST_UNROLL
  for (int i = 0; i < kTileRows; ++i) {
    const auto m_of = [&](int e) { return row + first_row + i * kTile + Tile::row(lane, e); };
    const auto n_of = [&](int j, int e) { return column + first_column + j * kTile + Tile::column(lane, e); };
    // All that is read comes before all that is written, for many reads to be on their way at once; of an element that is
    // there.
    typename Epilogue::Known known[kTileColumns][Tile::kSums];
    HOLDFAST_UNROLL
    for (int j = 0; j < kTileColumns; ++j) {
      HOLDFAST_UNROLL
      for (int e = 0; e < Tile::kSums; ++e) {
        const int64_t m = m_of(e), n = n_of(j, e);
        known[j][e] = epilogue.known(m < A.rows ? m : A.rows - 1, n < B.rows ? n : B.rows - 1);
      }
    }
    HOLDFAST_UNROLL
    for (int j = 0; j < kTileColumns; ++j) {
      HOLDFAST_UNROLL
      for (int e = 0; e < Tile::kSums; ++e) {
        const int64_t m = m_of(e), n = n_of(j, e);
        if (m < A.rows && n < B.rows) epilogue(m, n, sums[i][j].c[e], known[j][e]);
      }
    }
  }
  if constexpr (Epilogue::kRowSums) {
    HOLDFAST_UNROLL
    for (int i = 0; i < kSummed; ++i) {
      HOLDFAST_UNROLL
      for (int e = 0; e < Tile::kSums; ++e) {
        const int64_t m = row + first_row + (first_summed + i) * kTile + Tile::row(lane, e);
        if (sums_rows && Tile::column(lane, e) == 0 && m < A.rows) epilogue.row_sum(m, row_sums.of[i].c[e]);
      }
    }
  }
}

// Blocks: pieces of C, times parts of K of `K_part` each; the epilogue is told of the part. Pieces of one column of C follow
// each other, so that its operand stays in the cache.
template <typename Element, int Wave, typename By, bool ARowsContiguous, bool BRowsContiguous, typename Epilogue>
__global__ void __launch_bounds__(By::kThreads)
    product(Operand<Element> A, Operand<Element> B, int64_t K, int64_t K_part, Epilogue epilogue) {
  if constexpr (is_wave_of_device<Wave>) {
    const int64_t rows = (A.rows + By::kRows - 1) / By::kRows, columns = (B.rows + By::kColumns - 1) / By::kColumns;
    const auto block = static_cast<int64_t>(blockIdx.x);
    const int64_t part = block / (rows * columns), piece = block % (rows * columns);
    const int64_t begin = part * K_part, end = begin + K_part < K ? begin + K_part : K;
    multiply_piece<Element, Wave, By, ARowsContiguous, BRowsContiguous>(
        A, B, piece % rows * By::kRows, piece / rows * By::kColumns, begin, end, epilogue.of_part(part));
  } else {
    wrong_wave();
  }
}

// --- epilogues. known(m, n) is what they read at an element that is there, before anything is written.

struct Nothing {};

// out (M, N) as activations, with a bias (N) if there is one.
template <typename Element>
struct StoreActivations {
  using Known = Nothing;
  static constexpr bool kRowSums = false;
  Element* out;
  const float* bias;  // may be null
  int64_t N;
  __device__ const StoreActivations& of_part(int64_t) const { return *this; }
  __device__ Known known(int64_t, int64_t) const { return {}; }
  __device__ void operator()(int64_t m, int64_t n, float sum, Known) const {
    out[m * N + n] = narrow<Element>(bias == nullptr ? sum : sum + bias[n]);
  }
};

// The value before GELU as it is stored, and GELU of that, as the backward pass sees it.
template <typename Element>
struct StoreGelu {
  using Known = Nothing;
  static constexpr bool kRowSums = false;
  Element *out, *pre_gelu;
  const float* bias;
  int64_t N;
  __device__ const StoreGelu& of_part(int64_t) const { return *this; }
  __device__ Known known(int64_t, int64_t) const { return {}; }
  __device__ void operator()(int64_t m, int64_t n, float sum, Known) const {
    const auto before = narrow<Element>(sum + bias[n]);
    pre_gelu[m * N + n] = before;
    out[m * N + n] = narrow<Element>(gelu(widen(before)));
  }
};

// The gradient of GELU's input: that of its output, as it would be stored, times the slope.
template <typename Element>
struct StoreTimesSlope {
  using Known = Element;
  static constexpr bool kRowSums = false;
  Element* out;
  const Element* pre_gelu;
  int64_t N;
  __device__ const StoreTimesSlope& of_part(int64_t) const { return *this; }
  __device__ Known known(int64_t m, int64_t n) const { return pre_gelu[m * N + n]; }
  __device__ void operator()(int64_t m, int64_t n, float sum, Known before) const {
    out[m * N + n] = narrow<Element>(widen(narrow<Element>(sum)) * gelu_slope(widen(before)));
  }
};

// out (parts, M, N), or added to out (M, N) where there is one part.
struct StoreFloats {
  using Known = float;
  static constexpr bool kRowSums = false;
  float* out;
  int64_t N, part_stride;
  bool add;
  __device__ StoreFloats of_part(int64_t part) const { return {out + part * part_stride, N, part_stride, add}; }
  __device__ Known known(int64_t m, int64_t n) const { return add ? out[m * N + n] : 0.0F; }
  __device__ void operator()(int64_t m, int64_t n, float sum, Known there) const { out[m * N + n] = add ? there + sum : sum; }
};

// out (M, N), and the sums of A's rows (M); of each part, so many elements after those of the part before.
struct StoreFloatsAndRowSums {
  using Known = Nothing;
  static constexpr bool kRowSums = true;
  float *out, *row_sums;
  int64_t N, part_stride;
  __device__ StoreFloatsAndRowSums of_part(int64_t part) const {
    return {out + part * part_stride, row_sums + part * part_stride, N, part_stride};
  }
  __device__ Known known(int64_t, int64_t) const { return {}; }
  __device__ void operator()(int64_t m, int64_t n, float sum, Known) const { out[m * N + n] = sum; }
  __device__ void row_sum(int64_t m, float sum) const { row_sums[m] = sum; }
};

// The sums of each element's `parts` parts, in their order: of the first `split` elements to out (added to it, if so told), of
// the others to `others`.
template <typename Real>
__global__ void sum_of_parts(Real* out, Real* others, const Real* parts_of, int64_t count, int64_t parts, int64_t split,
                             bool add) {
  const auto [first, step] = own_elements();
  for (int64_t i = first; i < count; i += step) {
    Real sum = parts_of[i];
    for (int64_t part = 1; part < parts; ++part) sum += parts_of[part * count + i];
    Real& to = i < split ? out[i] : others[i - split];
    to = add ? to + sum : sum;
  }
}

}  // namespace holdfast::kernels::hip
