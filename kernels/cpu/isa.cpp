// CPU detection and oneDNN's limit.
#include "kernels/cpu/isa.h"

#include <unistd.h>

#include <cstdlib>
#include <dnnl.hpp>
#include <stdexcept>

#include "kernels/cpu/amx/product.h"

namespace holdfast::kernels::cpu {
namespace {

dnnl::cpu_isa onednn_isa(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return dnnl::cpu_isa::avx2;
    case Isa::kAvx512:
    case Isa::kAmx:  // which does not need it
      break;
  }
  return dnnl::cpu_isa::avx512_core;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      break;
  }
  return "amx";
}

Isa best_isa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) {
    throw std::runtime_error("the cpu device needs AVX2, FMA and F16C, and this CPU lacks one of them");
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (!avx512) return Isa::kAvx2;
  return amx::usable() ? Isa::kAmx : Isa::kAvx512;
}

Isa choose_isa(const char* wanted) {
  const Isa best = best_isa();
  if (wanted == nullptr || *wanted == '\0') return best;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (std::string(wanted) != isa_name(isa)) continue;
    if (isa > best) {
      throw std::runtime_error(std::string("HOLDFAST_CPU_ISA=") + wanted + ": this CPU has at most " + isa_name(best) +
                               "; set it to that or leave it unset");
    }
    return isa;
  }
  throw std::runtime_error(std::string("HOLDFAST_CPU_ISA=") + wanted + ": expected avx2, avx512 or amx, or leave it unset");
}

Isa isa_of_environment() {
  return choose_isa(std::getenv("HOLDFAST_CPU_ISA"));  // NOLINT(concurrency-mt-unsafe): nothing of ours changes it
}

void limit_onednn(Isa isa) {
  static const Isa first = [isa] {
    if (dnnl_set_max_cpu_isa(static_cast<dnnl_cpu_isa_t>(onednn_isa(isa))) != dnnl_success) {
      throw std::runtime_error(
          "oneDNN was used in this process before its instruction set could be limited; make the cpu "
          "device first");
    }
    return isa;
  }();
  if (first != isa) {
    throw std::runtime_error(std::string("this process already runs the cpu device with ") + isa_name(first) +
                             ": it cannot also run it with " + isa_name(isa) + "; use another process");
  }
}

std::string numerics_name(Isa isa) {
  if (isa == Isa::kAmx) return "cpu/amx/products-1";
  const dnnl_version_t* version = dnnl_version();
  const auto kilobytes = [](int name) { return std::to_string(sysconf(name) / 1024) + "k"; };
  return std::string("cpu/") + isa_name(isa) + "/onednn-" + std::to_string(version->major) + "." +
         std::to_string(version->minor) + "." + std::to_string(version->patch) + "/l1d-" + kilobytes(_SC_LEVEL1_DCACHE_SIZE) +
         "/l2-" + kilobytes(_SC_LEVEL2_CACHE_SIZE);
}

}  // namespace holdfast::kernels::cpu
