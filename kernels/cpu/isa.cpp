// CPU detection.
#include "kernels/cpu/isa.h"

#include <cstdlib>
#include <stdexcept>

#include "kernels/cpu/amx/product.h"

namespace holdfast::kernels::cpu {
namespace {

constexpr Isa kAll[] = {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx};

std::string names_of_all(bool only_here) {
  std::string names;
  for (const Isa isa : kAll) {
    if (!only_here || has(isa)) names += (names.empty() ? "" : ", ") + std::string(isa_name(isa));
  }
  return names;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
    case Isa::kAmx:
      break;
  }
  return "amx";
}

bool has(Isa isa) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  switch (isa) {
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx512Bf16:
      return avx512 && __builtin_cpu_supports("avx512bf16");
    case Isa::kAmx:
      break;
  }
  return avx512 && amx::usable();
}

bool multiplies_bfloat16(Isa isa) {
  return isa == Isa::kAvx512Bf16 || isa == Isa::kAmx;
}

Isa best_isa() {
  if (!has(Isa::kAvx2)) throw std::runtime_error("the cpu device needs AVX2, FMA and F16C, and this CPU lacks one of them");
  if (has(Isa::kAmx)) return Isa::kAmx;
  if (has(Isa::kAvx512Bf16) && __builtin_cpu_is("amd")) return Isa::kAvx512Bf16;
  return has(Isa::kAvx512) ? Isa::kAvx512 : Isa::kAvx2;
}

Isa choose_isa(const char* wanted) {
  const Isa best = best_isa();
  if (wanted == nullptr || *wanted == '\0') return best;
  for (const Isa isa : kAll) {
    if (std::string(wanted) != isa_name(isa)) continue;
    if (!has(isa)) {
      throw std::runtime_error(std::string("HOLDFAST_CPU_ISA=") + wanted + ": this CPU has " + names_of_all(true) +
                               "; set it to one of those or leave it unset");
    }
    return isa;
  }
  throw std::runtime_error(std::string("HOLDFAST_CPU_ISA=") + wanted + ": expected one of " + names_of_all(false) +
                           ", or leave it unset");
}

Isa isa_of_environment() {
  return choose_isa(std::getenv("HOLDFAST_CPU_ISA"));  // NOLINT(concurrency-mt-unsafe): nothing of ours changes it
}

std::string numerics_name(Isa isa) {
  std::string name = std::string("cpu/") + isa_name(isa);
  if (isa == Isa::kAvx512Bf16) {
    __builtin_cpu_init();
    name += __builtin_cpu_is("amd") ? "-amd" : __builtin_cpu_is("intel") ? "-intel" : "-other";
  }
  return name + (multiplies_bfloat16(isa) ? "/products-4" : "/products-3");
}

}  // namespace holdfast::kernels::cpu
