// Products by hipBLASLt, or by cuBLASLt under its names (library_products.h).
//
// The library's matrices have contiguous columns, ours contiguous rows: it is asked for the transposed product,
// (N, M) = B (N, K) * A (M, K)^T, so that its first operand is our second one, and a bias runs along its rows.
#include "kernels/hip/library_products.h"

#if defined(__CUDACC__)
#include "kernels/hip/cublas_names.h"
#else
#include <hipblaslt/hipblaslt.h>
#endif

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "kernels/hip/hip_ops.h"

namespace holdfast::kernels::hip {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr uintptr_t kAlignment = 16;  // beyond it no algorithm is better off, and where memory lies is not to matter
// A file of hipBLASLt's users that has it choose otherwise.
constexpr const char* kOverride = "HIPBLASLT_TUNING_OVERRIDE_FILE";

// After each call: what the library tried in vain on its way is no error of the kernel that is launched next.
void check_blas(hipblasStatus_t status, const std::string& what) {
  (void)hipGetLastError();
  if (status == HIPBLAS_STATUS_SUCCESS) return;
  if (status == HIPBLAS_STATUS_ALLOC_FAILED) {
    throw std::runtime_error("hip: out of memory in the library of matrix products, for " + what + kMemoryAdvice);
  }
  throw DeviceError("hip: " + what + ": the library of matrix products failed with status " +
                    std::to_string(static_cast<int>(status)) + " (a build with -DHOLDFAST_HIP_PRODUCTS=own does without it)");
}

hipDataType type_of(DType dtype) {
  if (dtype == DType::kFloat32) return HIP_R_32F;
  return dtype == DType::kBFloat16 ? HIP_R_16BF : HIP_R_16F;
}

// One of the library's objects, given back with this one.
template <typename Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (made_) (void)Destroy(handle_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  template <typename Create, typename... Arguments>
  void make(Create create, Arguments... arguments) {
    check_blas(create(&handle_, arguments...), "a product's description");
    made_ = true;
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_{};
  bool made_ = false;
};

// Rows and columns as the library counts them: element (r, c) is at data[c * stride + r].
class Layout : public Owned<hipblasLtMatrixLayout_t, hipblasLtMatrixLayoutDestroy> {
 public:
  Layout(DType dtype, int64_t rows, int64_t columns, int64_t stride) {
    make(hipblasLtMatrixLayoutCreate, type_of(dtype), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), stride);
  }
};
Layout layout_of(const LibraryProducts::Operand& operand, int64_t rows, int64_t K) {
  return operand.rows_contiguous ? Layout(operand.dtype, rows, K, operand.stride)
                                 : Layout(operand.dtype, K, rows, operand.stride);
}

// A product as the library is asked for it once: everything but the addresses of the operands.
struct Product {
  Product(const LibraryProducts::Result& result, const LibraryProducts::Operand& A, const LibraryProducts::Operand& B,
          int64_t M, int64_t N, int64_t K)
      : first(layout_of(B, N, K)), second(layout_of(A, M, K)), out(result.dtype, N, M, result.stride) {
    description.make(hipblasLtMatmulDescCreate, HIPBLAS_COMPUTE_32F, HIP_R_32F);
    set(HIPBLASLT_MATMUL_DESC_TRANSA, static_cast<int32_t>(B.rows_contiguous ? HIPBLAS_OP_N : HIPBLAS_OP_T));
    set(HIPBLASLT_MATMUL_DESC_TRANSB, static_cast<int32_t>(A.rows_contiguous ? HIPBLAS_OP_T : HIPBLAS_OP_N));
    if (result.bias != nullptr) {
      set(HIPBLASLT_MATMUL_DESC_EPILOGUE,
          static_cast<uint32_t>(result.pre_gelu != nullptr ? HIPBLASLT_EPILOGUE_GELU_AUX_BIAS : HIPBLASLT_EPILOGUE_BIAS));
      set(HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(type_of(result.dtype)));
    }
    if (result.pre_gelu != nullptr) set(HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, N);
    place(result);
  }
  void place(const LibraryProducts::Result& result) const {
    if (result.bias != nullptr) set(HIPBLASLT_MATMUL_DESC_BIAS_POINTER, result.bias);
    if (result.pre_gelu != nullptr) set(HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, result.pre_gelu);
  }
  template <typename Attribute, typename Value>
  void set(Attribute attribute, Value value) const {
    check_blas(hipblasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value), "a product's description");
  }

  Owned<hipblasLtMatmulDesc_t, hipblasLtMatmulDescDestroy> description;
  Layout first, second, out;
  bool is_possible = false;
  hipblasLtMatmulAlgo_t algorithm{};
};

// One for each device in use, to the end of the process: the library keeps some memory of the device when it is given back.
hipblasLtHandle_t handle_of(const Stream& stream) {
  static std::mutex mutex;
  static auto* const handles =
      new std::map<int, hipblasLtHandle_t>;  // never taken down: other static objects may still compute
  const std::lock_guard lock(mutex);
  const auto known = handles->find(stream.device());
  if (known != handles->end()) return known->second;
  stream.use();
  hipblasLtHandle_t made{};
  check_blas(hipblasLtCreate(&made), "its start");
  return (*handles)[stream.device()] = made;
}

class Library final : public LibraryProducts {
 public:
  explicit Library(const Stream& stream)
      : stream_(stream),
        workspace_(stream),
        processors_(properties_of(stream.device()).processors),
        handle_(handle_of(stream)) {}

  // How work is cut may depend on how many processors there are; asked-4: on what is asked for here, and in which words.
  std::string name() const override {
#if defined(__CUDACC__)
    const char* const library = "cublaslt-";
#else
    const char* const library = "hipblaslt-";
#endif
    const char* const override_file = std::getenv(kOverride);  // NOLINT(concurrency-mt-unsafe): nobody sets it
    return library + std::to_string(version()) + "-" + std::to_string(processors_) + "cu-asked-4" +
           (override_file == nullptr ? "" : std::string("-") + kOverride + "=" + override_file);
  }

  int version() const {
    int version = 0;
    check_blas(hipblasLtGetVersion(handle_, &version), "its version");
    return version;
  }

  void keep_to(const HipblasltLimits& limits) {
    limits_ = limits;
  }

  bool multiply(const Result& result, const Operand& A, const Operand& B, int64_t M, int64_t N, int64_t K) override {
    if (M == 0 || N == 0 || K == 0 || (result.pre_gelu != nullptr && N % 8 != 0)) return false;
    if ((!limits_.gaps && result.stride != N) || (!limits_.float32 && A.dtype == DType::kFloat32)) return false;
    stream_.use();
    void* const workspace = workspace_.get<char>(kWorkspaceBytes);
    const Product& product = product_for(result, A, B, M, N, K);
    if (!product.is_possible) return false;
    product.place(result);
    const float one = 1, beta = result.add ? 1.0F : 0.0F;
    const hipblasStatus_t status = hipblasLtMatmul(
        handle_, product.description.get(), &one, B.data, product.first.get(), A.data, product.second.get(), &beta, result.out,
        product.out.get(), result.out, product.out.get(), &product.algorithm, workspace, kWorkspaceBytes, stream_.get());
    check_blas(status, "a matrix product of " + std::to_string(M) + " x " + std::to_string(N) + " x " + std::to_string(K));
    return true;
  }

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, DType, DType, int, uintptr_t>;

  // The largest power of two, up to kAlignment, that every operand's place is a multiple of.
  static uintptr_t alignment_of(const Result& result, const Operand& A, const Operand& B) {
    uintptr_t bits = kAlignment;
    const void *const out = result.out, *const pre_gelu = result.pre_gelu;
    for (const void* place : {out, A.data, B.data, result.bias, pre_gelu}) bits |= reinterpret_cast<uintptr_t>(place);
    return bits & (~bits + 1);
  }

  const Product& product_for(const Result& result, const Operand& A, const Operand& B, int64_t M, int64_t N, int64_t K) {
    const int kind = (A.rows_contiguous ? 1 : 0) + (B.rows_contiguous ? 2 : 0) + (result.add ? 4 : 0) +
                     (result.bias != nullptr ? 8 : 0) + (result.pre_gelu != nullptr ? 16 : 0);
    const uintptr_t alignment = alignment_of(result, A, B);
    const Key key{M, N, K, A.stride, B.stride, result.stride, A.dtype, result.dtype, kind, alignment};
    if (const auto known = products_.find(key); known != products_.end()) return known->second;
    // An algorithm is chosen for places that are no more aligned than those that share it.
    Result somewhere = result;
    if (result.bias != nullptr) somewhere.bias = reinterpret_cast<const void*>(alignment);
    if (result.pre_gelu != nullptr) somewhere.pre_gelu = reinterpret_cast<void*>(alignment);
    Product& made = products_.try_emplace(key, somewhere, A, B, M, N, K).first->second;
    choose(made, alignment, result.bias != nullptr);
    return made;
  }

  // A sum in parts is rounded to the result's type before the bias is added (cuBLASLt 13.0, H100): its error is then one of
  // the sum, which may be large where the result is not. So products with a bias are not to be done in parts.
  void choose(Product& product, uintptr_t alignment, [[maybe_unused]] bool has_bias) const {
    Owned<hipblasLtMatmulPreference_t, hipblasLtMatmulPreferenceDestroy> preference;
    preference.make(hipblasLtMatmulPreferenceCreate);
    const auto prefer = [&](auto attribute, auto value) {
      check_blas(hipblasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value), "preferences");
    };
    prefer(HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kWorkspaceBytes));
#if defined(__CUDACC__)  // hipBLASLt has no such preferences; its algorithms need no more than an element's alignment
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<uint32_t>(has_bias ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                 CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, static_cast<uint32_t>(alignment));
    }
#else
    (void)alignment;
#endif
    hipblasLtMatmulHeuristicResult_t found{};
    int count = 0;
    // Whatever it says when it knows no algorithm (NOT_SUPPORTED, INVALID_VALUE where it has no code for the GPU): our own
    // kernel does it then, and a device that has failed fails there.
    const hipblasStatus_t status =
        hipblasLtMatmulAlgoGetHeuristic(handle_, product.description.get(), product.first.get(), product.second.get(),
                                        product.out.get(), product.out.get(), preference.get(), 1, &found, &count);
    (void)hipGetLastError();
    product.is_possible = status == HIPBLAS_STATUS_SUCCESS && count > 0 && found.state == HIPBLAS_STATUS_SUCCESS;
    product.algorithm = found.algo;
  }

  const Stream& stream_;
  DeviceScratch workspace_;
  int processors_;
  hipblasLtHandle_t handle_;
  HipblasltLimits limits_;
  std::map<Key, Product> products_;
};

}  // namespace

std::unique_ptr<LibraryProducts> make_library_products(const Stream& stream) {
  auto library = std::make_unique<Library>(stream);
#if !defined(__CUDACC__) && !defined(HOLDFAST_HIP_TRUST_LIBRARY)
  const HipblasltLimits limits = hipblaslt_limits(properties_of(stream.device()).architecture, library->version());
  if (!limits.any) return nullptr;
  library->keep_to(limits);
#endif
  return library;
}

}  // namespace holdfast::kernels::hip
