// Encoder, LayerNorm, and sums of some rows: work by rows, sums over rows in fixed pieces.
#include <cstring>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/wrapping_sum.h"

namespace holdfast::kernels::cpu {
namespace {

constexpr int64_t kRows = 32;      // rows per task
constexpr int64_t kColumns = 64;   // columns per task where rows must be taken in order
constexpr int64_t kSumRows = 128;  // rows whose sum is one partial

// Integers: there is no order to keep, and the compiler's vectors are as good as any. `ids` are distinct, so each row of the
// sums is one task's.
template <typename Integer>
void add_integer_rows(Team& team, Integer* sums, const Integer* rows, const int32_t* ids, int64_t R, int64_t C) {
  const Cut pieces = Cut::of(kRows, R);
  team.for_each(pieces.count, [&](int64_t i, int) {
    for (int64_t r = pieces.begin(i); r < pieces.begin(i) + pieces.size(i); ++r) {
      Integer* sum = sums + ids[r] * C;
      for (int64_t c = 0; c < C; ++c) sum[c] = wrapping_sum(sum[c], rows[r * C + c]);
    }
  });
}

}  // namespace

void CpuOps::encoder_forward(float* out, const int32_t* tokens, const Act* wte, const float* wpe, int64_t B, int64_t T,
                             int64_t C) {
  const Cut rows = Cut::of(kRows, B * T);
  team_.for_each(rows.count, [&](int64_t i, int) {
    for (int64_t n = rows.begin(i); n < rows.begin(i) + rows.size(i); ++n) {
      float* const row = out + n * C;
      elements_.to_float(row, at(wte, tokens[n] * C), C);
      vectors_.floats.add(row, row, wpe + n % T * C, C);
    }
  });
}

void CpuOps::drop(Act* x, const Dropout& dropout, int64_t N, int64_t C) {
  const Cut rows = Cut::of(kRows, N);
  team_.for_each(rows.count, [&](int64_t i, int) {
    for (int64_t n = rows.begin(i); n < rows.begin(i) + rows.size(i); ++n)
      elements_.drop(at(x, n * C), dropout, dropout_row(dropout_pass_, dropout.site, n), C);
  });
}

void CpuOps::drop(float* x, const Dropout& dropout, int64_t N, int64_t C) {
  const Cut rows = Cut::of(kRows, N);
  team_.for_each(rows.count, [&](int64_t i, int) {
    for (int64_t n = rows.begin(i); n < rows.begin(i) + rows.size(i); ++n)
      vectors_.floats.drop(x + n * C, dropout, dropout_row(dropout_pass_, dropout.site, n), C);
  });
}

void CpuOps::encoder_backward_tokens(float* dwte, const float* dout, const TokenRuns& runs, int64_t C) {
  const Cut columns = Cut::of(kColumns, C);
  team_.for_each(columns.count, [&](int64_t i, int) {
    const int64_t c = columns.begin(i), width = columns.size(i);
    for (int64_t r = 0; r < runs.R; ++r) {
      float* token_row = dwte + (runs.ids == nullptr ? r : runs.ids[r]) * C + c;
      for (int64_t n = runs.starts[r]; n < runs.starts[r + 1]; ++n) {
        vectors_.floats.add(token_row, token_row, dout + runs.positions[n] * C + c, width);
      }
    }
  });
}

void CpuOps::encoder_backward_positions(float* dwpe, const float* dout, int64_t B, int64_t T, int64_t C) {
  const Cut columns = Cut::of(kColumns, C);
  team_.for_each(columns.count, [&](int64_t i, int) {
    const int64_t c = columns.begin(i), width = columns.size(i);
    for (int64_t t = 0; t < T; ++t) {
      float* position_row = dwpe + t * C + c;
      std::memcpy(position_row, dout + t * C + c, static_cast<size_t>(width) * sizeof(float));
      for (int64_t b = 1; b < B; ++b) vectors_.floats.add(position_row, position_row, dout + (b * T + t) * C + c, width);
    }
  });
}

void CpuOps::layernorm_forward(Act* out, float* residual_out, float* mean, float* rstd, const float* residual_in, const Act* x,
                               const float* weight, const float* bias, int64_t N, int64_t C) {
  const Cut rows = Cut::of(kRows, N);
  team_.for_each(rows.count, [&](int64_t i, int) {
    const int64_t n = rows.begin(i);
    elements_.layernorm_forward(at(out, n * C), x == nullptr ? nullptr : residual_out + n * C, mean + n, rstd + n,
                                residual_in + n * C, x == nullptr ? nullptr : at(x, n * C), weight, bias, rows.size(i), C);
  });
}

void CpuOps::layernorm_backward(float* dresidual, Act* dx, float* dweight, float* dbias, const Act* dout, const float* residual,
                                const float* weight, const float* mean, const float* rstd, int64_t N, int64_t C) {
  const Cut rows = Cut::of(kSumRows, N);
  float* partials = partials_.floats(rows.count * 2 * C);  // (pieces, 2, C): dweight, dbias
  team_.for_each(rows.count, [&](int64_t i, int) {
    const int64_t n = rows.begin(i);
    float* piece = partials + i * 2 * C;
    std::memset(piece, 0, static_cast<size_t>(2 * C) * sizeof(float));
    elements_.layernorm_backward(dresidual + n * C, dx == nullptr ? nullptr : at(dx, n * C), piece, piece + C, at(dout, n * C),
                                 residual + n * C, weight, mean + n, rstd + n, rows.size(i), C);
  });
  std::memcpy(dweight, partials, static_cast<size_t>(C) * sizeof(float));
  std::memcpy(dbias, partials + C, static_cast<size_t>(C) * sizeof(float));
  for (int64_t i = 1; i < rows.count; ++i) {
    vectors_.floats.add(dweight, dweight, partials + i * 2 * C, C);
    vectors_.floats.add(dbias, dbias, partials + i * 2 * C + C, C);
  }
}

void CpuOps::add_rows(int32_t* sums, const int32_t* rows, const int32_t* ids, int64_t R, int64_t C) {
  add_integer_rows(team_, sums, rows, ids, R, C);
}

void CpuOps::add_rows(int16_t* sums, const int16_t* rows, const int32_t* ids, int64_t R, int64_t C) {
  add_integer_rows(team_, sums, rows, ids, R, C);
}

void CpuOps::add_rows(float* sums, const float* rows, const int32_t* ids, int64_t R, int64_t C) {
  const Cut pieces = Cut::of(kRows, R);
  team_.for_each(pieces.count, [&](int64_t i, int) {
    for (int64_t r = pieces.begin(i); r < pieces.begin(i) + pieces.size(i); ++r) {
      float* sum = sums + ids[r] * C;
      vectors_.floats.add(sum, sum, rows + r * C, C);
    }
  });
}

}  // namespace holdfast::kernels::cpu
