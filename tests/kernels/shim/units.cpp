// The matrix instructions, from the vendors' pictures of each lane's registers. This file was written independently of
// kernels/hip/matrix_tile.h, so that a layout misread there is not misread here in the same way.
#include <hip/hip_runtime.h>

#include <array>
#include <cstring>
#include <vector>

#include "kernels/dtype.h"

namespace shim {
namespace {

using Matrix = std::array<std::array<float, 16>, 16>;

float number(bool is_bfloat16, uint16_t bits) {
  if (!is_bfloat16) return widen_half(bits);
  holdfast::kernels::BFloat16 x;
  x.bits = bits;
  return x;
}

int lane_of(int wave) {
  return static_cast<int>(current().thread.x) % wave;
}

// Calls `what` with every lane's registers; they do not change until all lanes of the wave have left `what`.
template <typename What>
void with_registers(const void* own, int wave, What what) {
  const auto all = registers_of_wave(own, wave);
  what([&](int lane) { return static_cast<const uint16_t*>(all[static_cast<size_t>(lane)]); }, lane_of(wave));
  wait_for_wave(wave);  // no lane goes on while another still reads
}

// The place of an operand's element (row, k): 16-bit item `at(row, k).half` of lane `at(row, k).lane`.
struct Place {
  int lane, half;
};
template <typename At>
Matrix operand(bool is_bfloat16, const void* own, int wave, int rows, At at) {
  Matrix matrix{};
  with_registers(own, wave, [&](auto lane, int) {
    for (int row = 0; row < rows; ++row) {
      for (int k = 0; k < 16; ++k) matrix[row][k] = number(is_bfloat16, lane(at(row, k).lane)[at(row, k).half]);
    }
  });
  return matrix;
}

float dot(const Matrix& a, const Matrix& b, int row, int column) {
  float sum = 0;
  for (int k = 0; k < 16; ++k) sum += a[row][k] * b[column][k];
  return sum;
}

}  // namespace

float from_lane_of_wave(float value, int source, int wave) {
  const auto all = registers_of_wave(&value, wave);
  const float passed = *static_cast<const float*>(all.at(static_cast<size_t>(source)));
  wait_for_wave(wave);
  return passed;
}

// RDNA4, 7.12.2: 16-bit A and B: lanes 0-15 hold K 0..7 of row (column) lane, lanes 16-31 K 8..15, two to a VGPR.
// D: VGPR v of lanes 0-15 is row v, of lanes 16-31 row v + 8; the column is the lane modulo 16.
void wmma12(bool is_bfloat16, const void* a, const void* b, void* c) {
  const auto at = [](int row, int k) { return Place{row + (k >= 8 ? 16 : 0), k % 8}; };
  const Matrix A = operand(is_bfloat16, a, 32, 16, at), B = operand(is_bfloat16, b, 32, 16, at);
  auto* const d = static_cast<float*>(c);
  const int lane = lane_of(32);
  for (int v = 0; v < 8; ++v) d[v] += dot(A, B, lane < 16 ? v : v + 8, lane % 16);
}

// RDNA3, 7.12.2: every lane holds all 16 of K; lanes 16-31 hold the same as lanes 0-15. D: VGPR v of lanes 0-15 is row 2v, of
// lanes 16-31 row 2v + 1.
void wmma11(bool is_bfloat16, const void* a, const void* b, void* c) {
  const auto low = [](int row, int k) { return Place{row, k}; };
  const auto high = [](int row, int k) { return Place{row + 16, k}; };
  const Matrix A = operand(is_bfloat16, a, 32, 16, low), B = operand(is_bfloat16, b, 32, 16, low);
  if (A != operand(is_bfloat16, a, 32, 16, high) || B != operand(is_bfloat16, b, 32, 16, high)) return;  // undefined: no sum
  auto* const d = static_cast<float*>(c);
  const int lane = lane_of(32);
  for (int v = 0; v < 8; ++v) d[v] += dot(A, B, lane < 16 ? 2 * v : 2 * v + 1, lane % 16);
}

// CDNA3, 7.1.4, 16x16x16 of 16 bits: A[i][k] in lane i + 16 (k / 4), item k % 4; B[k][j] in lane j + 16 (k / 4). D[i][j] in
// lane j + 16 (i / 4), VGPR i % 4.
void mfma(bool is_bfloat16, const void* a, const void* b, void* c) {
  const auto at = [](int row, int k) { return Place{row + 16 * (k / 4), k % 4}; };
  const Matrix A = operand(is_bfloat16, a, 64, 16, at), B = operand(is_bfloat16, b, 64, 16, at);
  auto* const d = static_cast<float*>(c);
  const int lane = lane_of(64);
  for (int v = 0; v < 4; ++v) d[v] += dot(A, B, lane / 16 * 4 + v, lane % 16);
}

// PTX: with groupID = lane >> 2 and threadID = lane % 4.
// A: ai for i = 0, 1, 4, 5 in row groupID, else groupID + 8; column threadID * 2 + (i & 1), 8 more for i >= 4.
// B: bi in row (of K) threadID * 2 + (i & 1), 8 more for i >= 2; column groupID.
// C: ci for i < 2 in row groupID, else groupID + 8; column threadID * 2 + (i & 1).
void mma16816(bool is_bfloat16, const void* a, const void* b, void* c) {
  const auto a_at = [](int row, int k) {
    return Place{row % 8 * 4 + k % 8 / 2, k % 2 + (row >= 8 ? 2 : 0) + (k >= 8 ? 4 : 0)};
  };
  const auto b_at = [](int column, int k) { return Place{column * 4 + k % 8 / 2, k % 2 + (k >= 8 ? 2 : 0)}; };
  const Matrix A = operand(is_bfloat16, a, 32, 16, a_at), B = operand(is_bfloat16, b, 32, 8, b_at);
  auto* const d = static_cast<float*>(c);
  const int group = lane_of(32) / 4, thread = lane_of(32) % 4;
  for (int i = 0; i < 4; ++i) d[i] += dot(A, B, i < 2 ? group : group + 8, thread * 2 + i % 2);
}

// PTX: thread l gives the address of row l % 8 of matrix l / 8. Register r of thread l holds two elements of matrix r: row
// l / 4, columns 2 (l % 4) and the next; transposed: column l / 4, rows 2 (l % 4) and the next.
void ldmatrix(bool transposed, const void* own_row, void* x) {
  if (reinterpret_cast<uintptr_t>(own_row) % 16 != 0)
    give_up("ldmatrix of a row that does not begin at a multiple of 16 bytes");
  with_registers(own_row, 32, [&](auto row_of, int lane) {
    std::array<uint16_t, 8> registers{};
    for (int r = 0; r < 4; ++r) {
      for (int half = 0; half < 2; ++half) {
        const int row = transposed ? lane % 4 * 2 + half : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + half;
        registers[static_cast<size_t>(2 * r + half)] = row_of(8 * r + row)[column];
      }
    }
    std::memcpy(x, registers.data(), sizeof registers);
  });
}

}  // namespace shim
