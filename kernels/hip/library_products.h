// The seam to the vendor's library of matrix products: hipBLASLt on AMD's GPUs, cuBLASLt on NVIDIA's. A build has
// library_products.hip, or where CMake found no library (HOLDFAST_HIP_PRODUCTS) no_library_products.hip.
//
// Promises: a product's bits depend on its operands, its shape and layout, the GPU's kind and the library's version (name())
// and on nothing else: an algorithm is asked of the library once a shape, and never chosen by measuring. cuBLASLt is told to
// add parts of K in an order; hipBLASLt cannot be told, which is why ops/check_gpu compares the bits of runs (and
// HOLDFAST_HIP_PRODUCTS=own does without a library). Accumulates in float32. Waits only where scratch is allocated, once.
// Ownership: operands are the caller's, on the device. Thread: the one that uses the stream's op set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/dtype.h"
#include "kernels/hip/runtime.h"

namespace holdfast::kernels::hip {

class LibraryProducts {
 public:
  // An operand (rows, K): element (row, k) is at data[row * stride + k], or at data[k * stride + row] where rows are
  // contiguous.
  struct Operand {
    const void* data;
    DType dtype;
    int64_t stride;
    bool rows_contiguous;
  };
  // out (M, N): element (m, n) is at out[m * stride + n].
  struct Result {
    void* out;
    DType dtype;
    int64_t stride;
    bool add = false;            // to what is there; then there is no bias
    const void* bias = nullptr;  // (N), of `dtype`
    void* pre_gelu = nullptr;    // (M, N) without gaps, of `dtype`: the sums and the bias; out is GELU of it. Needs a bias
  };

  virtual ~LibraryProducts() = default;
  virtual std::string name() const = 0;  // "hipblaslt-1000", and what else the choice of an algorithm depends on
  // result = A (M, K) * B (N, K)^T. False: the library cannot do that; nothing was done. Throws DeviceError.
  virtual bool multiply(const Result& result, const Operand& A, const Operand& B, int64_t M, int64_t N, int64_t K) = 0;
};

// Null: this build has no library, or one that is known to be wrong there. A build with HOLDFAST_HIP_PRODUCTS=library asks it
// for everything.
std::unique_ptr<LibraryProducts> make_library_products(const Stream& stream);

// The products that hipBLASLt is asked for; the others are our own kernel's.
struct HipblasltLimits {
  bool any = true;
  bool gaps = true;     // outputs with gaps between rows
  bool float32 = true;  // products of float32
  bool operator==(const HipblasltLimits&) const = default;
};
// Of a version (100000 * major + 100 * minor + patch) on a GPU. Before 1.1 some of its kernels wrote outputs with gaps between
// rows wrongly (its changelog of ROCm 7.1). Before 1.5 those for gfx12 could read past operands (rocm-libraries issue 7992),
// which ends the process. On gfx12 its float32 can be slower than ours by far: 1.25 TFLOP/s on gfx1201 (issue 10861, open in
// August 2026).
inline HipblasltLimits hipblaslt_limits(const std::string& architecture, int version) {
  const bool is_rdna4 = architecture.starts_with("gfx12");
  return {.any = !is_rdna4 || version >= 100500, .gaps = version >= 100100, .float32 = !is_rdna4};
}

}  // namespace holdfast::kernels::hip
