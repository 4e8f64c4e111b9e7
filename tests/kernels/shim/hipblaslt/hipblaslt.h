// Stands in for hipBLASLt's header of this name where the CPU plays the library: the functions that
// kernels/hip/library_products.hip calls. It tests the calls (layouts, transposes, epilogues), not the library.
//
// Matrices are as in BLAS, with contiguous columns. The real library may refuse any shape; this one refuses shapes whose
// columns do not begin at multiples of 16 bytes, until a test says otherwise. A workspace is filled with noise. Thread: any.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>

enum hipblasStatus_t : int {
  HIPBLAS_STATUS_SUCCESS = 0,
  HIPBLAS_STATUS_ALLOC_FAILED = 2,
  HIPBLAS_STATUS_INVALID_VALUE = 3,
  HIPBLAS_STATUS_EXECUTION_FAILED = 6,
  HIPBLAS_STATUS_NOT_SUPPORTED = 7
};
enum hipDataType : int { HIP_R_32F = 0, HIP_R_16F = 2, HIP_R_16BF = 14 };
enum hipblasComputeType_t : int { HIPBLAS_COMPUTE_32F = 2 };
enum hipblasOperation_t : int { HIPBLAS_OP_N = 111, HIPBLAS_OP_T = 112 };
enum hipblasLtEpilogue_t : int {
  HIPBLASLT_EPILOGUE_DEFAULT = 1,
  HIPBLASLT_EPILOGUE_BIAS = 4,
  HIPBLASLT_EPILOGUE_GELU_AUX_BIAS = 164
};
enum hipblasLtMatmulDescAttributes_t : int {
  HIPBLASLT_MATMUL_DESC_TRANSA = 0,
  HIPBLASLT_MATMUL_DESC_TRANSB = 1,
  HIPBLASLT_MATMUL_DESC_EPILOGUE = 2,
  HIPBLASLT_MATMUL_DESC_BIAS_POINTER = 3,
  HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 4,
  HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 10,
  HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 11,
};
enum hipblasLtMatmulPreferenceAttributes_t : int { HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1 };

struct ShimProduct;
struct ShimLayout;
struct ShimPreference;
using hipblasLtHandle_t = void*;
using hipblasLtMatmulDesc_t = ShimProduct*;
using hipblasLtMatrixLayout_t = ShimLayout*;
using hipblasLtMatmulPreference_t = ShimPreference*;
struct hipblasLtMatmulAlgo_t {
  uint8_t data[16];
  size_t max_workspace_bytes;
};
struct hipblasLtMatmulHeuristicResult_t {
  hipblasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  hipblasStatus_t state;
  float wavesCount;
  int reserved[4];
};

hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t* handle);
hipblasStatus_t hipblasLtGetVersion(hipblasLtHandle_t handle, int* version);
hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t* made, hipblasComputeType_t compute, hipDataType scale);
hipblasStatus_t hipblasLtMatmulDescDestroy(hipblasLtMatmulDesc_t made);
hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t of, hipblasLtMatmulDescAttributes_t what,
                                                const void* value, size_t bytes);
hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t* made, hipDataType type, uint64_t rows, uint64_t columns,
                                            int64_t stride);
hipblasStatus_t hipblasLtMatrixLayoutDestroy(hipblasLtMatrixLayout_t made);
hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t* made);
hipblasStatus_t hipblasLtMatmulPreferenceDestroy(hipblasLtMatmulPreference_t made);
hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t of,
                                                      hipblasLtMatmulPreferenceAttributes_t what, const void* value,
                                                      size_t bytes);
hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t product,
                                                hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b, hipblasLtMatrixLayout_t c,
                                                hipblasLtMatrixLayout_t d, hipblasLtMatmulPreference_t preference, int most,
                                                hipblasLtMatmulHeuristicResult_t* results, int* count);
hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t product, const void* alpha, const void* a,
                                hipblasLtMatrixLayout_t a_layout, const void* b, hipblasLtMatrixLayout_t b_layout,
                                const void* beta, const void* c, hipblasLtMatrixLayout_t c_layout, void* d,
                                hipblasLtMatrixLayout_t d_layout, const hipblasLtMatmulAlgo_t* algorithm, void* workspace,
                                size_t workspace_bytes, hipStream_t stream);

namespace shim {
int64_t products_by_library();                   // the number so far
void refuse_odd_shapes(bool on);                 // at first: on
void set_library_version(int version);           // at first: 1.1.0, as hipBLASLt writes it
void answer_next_product(hipblasStatus_t with);  // instead of computing it
}  // namespace shim
