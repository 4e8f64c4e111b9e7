// Which instructions the cpu op set runs on, and the name under which a worker reports them.
//
//   avx2    vectors of 8; products in float32
//   avx512  vectors of 16; products in float32. 16-bit operands are widened first, which is exact, and on CPUs without
//           AMX faster than their bfloat16 instruction (measured: 150 against 83 GFLOP/s per core)
//   amx     as avx512, with all products on the matrix units (amx/product.h); where the system lets this process use them
//
// Refuses (std::runtime_error): a CPU below avx2; HOLDFAST_CPU_ISA naming something else or more than the CPU has; a second
// choice in one process that differs from the first, because oneDNN takes its limit only once.
#pragma once

#include <string>

namespace holdfast::kernels::cpu {

enum class Isa { kAvx2, kAvx512, kAmx };

const char* isa_name(Isa isa);
Isa best_isa();  // of this CPU

// `wanted` is the value of HOLDFAST_CPU_ISA, or null for the best.
Isa choose_isa(const char* wanted);
Isa isa_of_environment();  // choose_isa of what is set

// Keeps oneDNN from using more than `isa`.
void limit_onednn(Isa isa);

// "cpu/avx512/onednn-2.6.3/l1d-48k/l2-2048k": oneDNN cuts products into blocks by the sizes of the caches, and the order of
// a sum follows the blocks. "cpu/amx/products-1": our own loops depend on nothing but their source, whose number this is.
std::string numerics_name(Isa isa);

}  // namespace holdfast::kernels::cpu
