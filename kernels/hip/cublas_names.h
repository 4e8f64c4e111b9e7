// hipBLASLt's names for what NVIDIA's cuBLASLt has, as far as library_products.hip uses them.
#pragma once

#include <cublasLt.h>

#include "kernels/hip/cuda_names.h"

using hipblasStatus_t = cublasStatus_t;
using hipDataType = cudaDataType_t;
using hipblasLtHandle_t = cublasLtHandle_t;
using hipblasLtMatmulDesc_t = cublasLtMatmulDesc_t;
using hipblasLtMatrixLayout_t = cublasLtMatrixLayout_t;
using hipblasLtMatmulPreference_t = cublasLtMatmulPreference_t;
using hipblasLtMatmulAlgo_t = cublasLtMatmulAlgo_t;
using hipblasLtMatmulHeuristicResult_t = cublasLtMatmulHeuristicResult_t;
inline constexpr hipblasStatus_t HIPBLAS_STATUS_SUCCESS = CUBLAS_STATUS_SUCCESS,
                                 HIPBLAS_STATUS_ALLOC_FAILED = CUBLAS_STATUS_ALLOC_FAILED;
inline constexpr hipDataType HIP_R_32F = CUDA_R_32F, HIP_R_16F = CUDA_R_16F, HIP_R_16BF = CUDA_R_16BF;
inline constexpr cublasComputeType_t HIPBLAS_COMPUTE_32F = CUBLAS_COMPUTE_32F;
inline constexpr cublasOperation_t HIPBLAS_OP_N = CUBLAS_OP_N, HIPBLAS_OP_T = CUBLAS_OP_T;
inline constexpr cublasLtMatmulDescAttributes_t HIPBLASLT_MATMUL_DESC_TRANSA = CUBLASLT_MATMUL_DESC_TRANSA,
                                                HIPBLASLT_MATMUL_DESC_TRANSB = CUBLASLT_MATMUL_DESC_TRANSB,
                                                HIPBLASLT_MATMUL_DESC_EPILOGUE = CUBLASLT_MATMUL_DESC_EPILOGUE,
                                                HIPBLASLT_MATMUL_DESC_BIAS_POINTER = CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                                                HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER =
                                                    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                                HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD;
inline constexpr cublasLtEpilogue_t HIPBLASLT_EPILOGUE_BIAS = CUBLASLT_EPILOGUE_BIAS,
                                    HIPBLASLT_EPILOGUE_GELU_AUX_BIAS = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
inline constexpr cublasLtMatmulPreferenceAttributes_t HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES =
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;

inline hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t* handle) {
  return cublasLtCreate(handle);
}
inline hipblasStatus_t hipblasLtGetVersion(hipblasLtHandle_t, int* version) {
  *version = static_cast<int>(cublasLtGetVersion());
  return CUBLAS_STATUS_SUCCESS;
}
inline hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t* made, cublasComputeType_t compute, hipDataType scale) {
  return cublasLtMatmulDescCreate(made, compute, scale);
}
inline hipblasStatus_t hipblasLtMatmulDescDestroy(hipblasLtMatmulDesc_t made) {
  return cublasLtMatmulDescDestroy(made);
}
inline hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t what,
                                                       const void* value, size_t bytes) {
  return cublasLtMatmulDescSetAttribute(of, what, value, bytes);
}
inline hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t* made, hipDataType type, uint64_t rows,
                                                   uint64_t columns, int64_t stride) {
  return cublasLtMatrixLayoutCreate(made, type, rows, columns, stride);
}
inline hipblasStatus_t hipblasLtMatrixLayoutDestroy(hipblasLtMatrixLayout_t made) {
  return cublasLtMatrixLayoutDestroy(made);
}
inline hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t* made) {
  return cublasLtMatmulPreferenceCreate(made);
}
inline hipblasStatus_t hipblasLtMatmulPreferenceDestroy(hipblasLtMatmulPreference_t made) {
  return cublasLtMatmulPreferenceDestroy(made);
}
inline hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t of,
                                                             cublasLtMatmulPreferenceAttributes_t what, const void* value,
                                                             size_t bytes) {
  return cublasLtMatmulPreferenceSetAttribute(of, what, value, bytes);
}
inline hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t product,
                                                       hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b,
                                                       hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,
                                                       hipblasLtMatmulPreference_t preference, int most,
                                                       hipblasLtMatmulHeuristicResult_t* results, int* count) {
  return cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, c, d, preference, most, results, count);
}
inline hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t product, const void* alpha,
                                       const void* a, hipblasLtMatrixLayout_t a_layout, const void* b,
                                       hipblasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                                       hipblasLtMatrixLayout_t c_layout, void* d, hipblasLtMatrixLayout_t d_layout,
                                       const hipblasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                                       hipStream_t stream) {
  return cublasLtMatmul(handle, product, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace,
                        workspace_bytes, stream);
}
