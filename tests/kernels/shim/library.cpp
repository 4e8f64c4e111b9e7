// A replacement of hipBLASLt: plain loops over columns, in double precision, which are put into the stream like any kernel.
#include <hipblaslt/hipblaslt.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/dtype.h"

struct ShimProduct {
  int32_t a_operation = HIPBLAS_OP_N, b_operation = HIPBLAS_OP_N, bias_type = -1;
  uint32_t epilogue = HIPBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;
  int64_t aux_stride = 0;
};
struct ShimLayout {
  hipDataType type;
  int64_t rows, columns, stride;
};
struct ShimPreference {
  uint64_t workspace = 0;
};

namespace {

namespace kernels = holdfast::kernels;
constexpr unsigned char kNoise = 0x7e;
constexpr size_t kNoisyBytes = size_t{64} << 10;  // bytes of a workspace that are filled; to fill all takes too long
std::atomic<int64_t> products{0};
std::atomic<bool> refuses_odd{true};
std::atomic<int> library_version{100100};
std::atomic<hipblasStatus_t> next_answer{HIPBLAS_STATUS_SUCCESS};

int64_t bytes_of(hipDataType type) {
  return type == HIP_R_32F ? 4 : 2;
}
double at(const void* data, hipDataType type, int64_t i) {
  if (type == HIP_R_32F) return static_cast<const float*>(data)[i];
  if (type == HIP_R_16BF) return static_cast<const kernels::BFloat16*>(data)[i];
  return static_cast<const kernels::Float16*>(data)[i];
}
void put(void* data, hipDataType type, int64_t i, double value) {
  if (type == HIP_R_32F) static_cast<float*>(data)[i] = static_cast<float>(value);
  if (type == HIP_R_16BF) static_cast<kernels::BFloat16*>(data)[i] = static_cast<float>(value);
  if (type == HIP_R_16F) static_cast<kernels::Float16*>(data)[i] = static_cast<float>(value);
}
// GELU's approximation by tanh, as the library documents it.
double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

bool is_aligned(const ShimLayout& layout) {
  return layout.stride * bytes_of(layout.type) % 16 == 0;
}

// The rows and columns of op(x).
int64_t rows(const ShimLayout& x, int32_t operation) {
  return operation == HIPBLAS_OP_N ? x.rows : x.columns;
}
int64_t columns(const ShimLayout& x, int32_t operation) {
  return operation == HIPBLAS_OP_N ? x.columns : x.rows;
}

bool fits(const ShimProduct& product, const ShimLayout& a, const ShimLayout& b, const ShimLayout& d) {
  for (const ShimLayout* layout : {&a, &b, &d}) {
    if (layout->stride < layout->rows) return false;
  }
  const bool has_bias = product.epilogue != HIPBLASLT_EPILOGUE_DEFAULT,
             has_aux = product.epilogue == HIPBLASLT_EPILOGUE_GELU_AUX_BIAS;
  return a.type == b.type && rows(a, product.a_operation) == d.rows && columns(b, product.b_operation) == d.columns &&
         columns(a, product.a_operation) == rows(b, product.b_operation) && (product.bias != nullptr) == has_bias &&
         (!has_bias || product.bias_type == d.type) && (product.aux != nullptr) == has_aux &&
         (!has_aux || product.aux_stride >= d.rows);
}

void multiply(const ShimProduct& product, double alpha, const void* a, const ShimLayout& a_is, const void* b,
              const ShimLayout& b_is, double beta, const void* c, void* d, const ShimLayout& d_is) {
  const auto element = [](const void* data, const ShimLayout& is, int32_t operation, int64_t r, int64_t k) {
    return at(data, is.type, operation == HIPBLAS_OP_N ? k * is.stride + r : r * is.stride + k);
  };
  const int64_t K = columns(a_is, product.a_operation);
  for (int64_t column = 0; column < d_is.columns; ++column) {
    for (int64_t row = 0; row < d_is.rows; ++row) {
      double sum = 0;
      for (int64_t k = 0; k < K; ++k) {
        sum += element(a, a_is, product.a_operation, row, k) * element(b, b_is, product.b_operation, k, column);
      }
      const int64_t i = column * d_is.stride + row;
      double value = alpha * sum + (beta == 0 ? 0 : beta * at(c, d_is.type, i));
      if (product.epilogue != HIPBLASLT_EPILOGUE_DEFAULT) value += at(product.bias, d_is.type, row);
      if (product.epilogue == HIPBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        put(product.aux, d_is.type, column * product.aux_stride + row, value);
        value = gelu(value);
      }
      put(d, d_is.type, i, value);
    }
  }
}

template <typename Value>
hipblasStatus_t take(Value& to, const void* value, size_t bytes) {
  if (bytes != sizeof to) return HIPBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return HIPBLAS_STATUS_SUCCESS;
}

template <typename Object, typename... Arguments>
hipblasStatus_t make(Object** made, Arguments... arguments) {
  *made = new Object{arguments...};
  return HIPBLAS_STATUS_SUCCESS;
}

}  // namespace

namespace shim {
int64_t products_by_library() {
  return products;
}
void refuse_odd_shapes(bool on) {
  refuses_odd = on;
}
void set_library_version(int version) {
  library_version = version;
}
void answer_next_product(hipblasStatus_t with) {
  next_answer = with;
}
}  // namespace shim

hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t* handle) {
  *handle = new char;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtGetVersion(hipblasLtHandle_t, int* version) {
  *version = library_version;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t* made, hipblasComputeType_t, hipDataType scale) {
  return scale == HIP_R_32F ? make(made) : HIPBLAS_STATUS_INVALID_VALUE;
}
hipblasStatus_t hipblasLtMatmulDescDestroy(hipblasLtMatmulDesc_t made) {
  delete made;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t of, hipblasLtMatmulDescAttributes_t what,
                                                const void* value, size_t bytes) {
  switch (what) {
    case HIPBLASLT_MATMUL_DESC_TRANSA:
      return take(of->a_operation, value, bytes);
    case HIPBLASLT_MATMUL_DESC_TRANSB:
      return take(of->b_operation, value, bytes);
    case HIPBLASLT_MATMUL_DESC_EPILOGUE:
      return take(of->epilogue, value, bytes);
    case HIPBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(of->bias, value, bytes);
    case HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return take(of->bias_type, value, bytes);
    case HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take(of->aux, value, bytes);
    case HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take(of->aux_stride, value, bytes);
  }
  return HIPBLAS_STATUS_INVALID_VALUE;
}
hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t* made, hipDataType type, uint64_t rows, uint64_t columns,
                                            int64_t stride) {
  return make(made, type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), stride);
}
hipblasStatus_t hipblasLtMatrixLayoutDestroy(hipblasLtMatrixLayout_t made) {
  delete made;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t* made) {
  return make(made);
}
hipblasStatus_t hipblasLtMatmulPreferenceDestroy(hipblasLtMatmulPreference_t made) {
  delete made;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t of, hipblasLtMatmulPreferenceAttributes_t,
                                                      const void* value, size_t bytes) {
  return take(of->workspace, value, bytes);
}
hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t, hipblasLtMatmulDesc_t product, hipblasLtMatrixLayout_t a,
                                                hipblasLtMatrixLayout_t b, hipblasLtMatrixLayout_t, hipblasLtMatrixLayout_t d,
                                                hipblasLtMatmulPreference_t preference, int most,
                                                hipblasLtMatmulHeuristicResult_t* results, int* count) {
  *count = 0;
  if (most < 1 || !fits(*product, *a, *b, *d)) return HIPBLAS_STATUS_INVALID_VALUE;
  // Real versions of the library return one or the other status when they have no algorithm.
  if (refuses_odd && !is_aligned(*a)) return HIPBLAS_STATUS_NOT_SUPPORTED;
  if (refuses_odd && (!is_aligned(*b) || !is_aligned(*d))) return HIPBLAS_STATUS_INVALID_VALUE;
  *count = 1;
  results[0] = {{{}, preference->workspace}, preference->workspace, HIPBLAS_STATUS_SUCCESS, 1.0F, {}};
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t, hipblasLtMatmulDesc_t product, const void* alpha, const void* a,
                                hipblasLtMatrixLayout_t a_layout, const void* b, hipblasLtMatrixLayout_t b_layout,
                                const void* beta, const void* c, hipblasLtMatrixLayout_t c_layout, void* d,
                                hipblasLtMatrixLayout_t d_layout, const hipblasLtMatmulAlgo_t* algorithm, void* workspace,
                                size_t workspace_bytes, hipStream_t stream) {
  if (!fits(*product, *a_layout, *b_layout, *d_layout) || c_layout != d_layout ||
      workspace_bytes < algorithm->max_workspace_bytes) {
    return HIPBLAS_STATUS_INVALID_VALUE;
  }
  ++products;
  if (const auto answer = next_answer.exchange(HIPBLAS_STATUS_SUCCESS); answer != HIPBLAS_STATUS_SUCCESS) return answer;
  // Captures by value, because the library reads all arguments when it is called.
  const auto one_thread = [=, what = *product, a_is = *a_layout, b_is = *b_layout, d_is = *d_layout,
                           by = static_cast<double>(*static_cast<const float*>(alpha)),
                           keep = static_cast<double>(*static_cast<const float*>(beta))] {
    if (threadIdx.x != 0) return;
    std::memset(workspace, kNoise, std::min(workspace_bytes, kNoisyBytes));
    multiply(what, by, a, a_is, b, b_is, keep, c, d, d_is);
  };
  const hipError_t launched = shim::launch(1, 64, stream, one_thread);
  if (launched != hipSuccess) (void)hipGetLastError();
  return launched == hipSuccess ? HIPBLAS_STATUS_SUCCESS : HIPBLAS_STATUS_EXECUTION_FAILED;
}
