// Which instructions the cpu op set runs on, and the name under which a worker reports them.
//
//   avx2         vectors of 8; products in float32. 16-bit operands are widened first, which is exact
//   avx512       vectors of 16; products in float32
//   avx512_bf16  as avx512, with products of bfloat16 by dot products of two; twice as fast on AMD's CPUs since Zen 4. Intel's
//                are no faster at it than at float32, so they do not take it by themselves
//   amx          as avx512, with all products on the matrix units (amx/product.h); where the system lets this process use them
//
// Refuses (std::runtime_error): a CPU below avx2; HOLDFAST_CPU_ISA naming something else, or what the CPU lacks.
#pragma once

#include <string>

namespace holdfast::kernels::cpu {

enum class Isa { kAvx2, kAvx512, kAvx512Bf16, kAmx };

const char* isa_name(Isa isa);
bool has(Isa isa);                  // whether this CPU does
bool multiplies_bfloat16(Isa isa);  // products take bfloat16 operands as they are
Isa best_isa();                     // of this CPU

// `wanted` is the value of HOLDFAST_CPU_ISA, or null for the best.
Isa choose_isa(const char* wanted);
Isa isa_of_environment();  // choose_isa of what is set

// "cpu/avx512/products-3": bits depend on nothing but the instructions and our loops' source, whose number this is. Where it is
// for a vendor to say how a sum is rounded inside one instruction, the name has the vendor: "cpu/avx512_bf16-amd/products-4".
// tests/kernels/numbers/numerics_digest_test.cpp has digests of the bits behind a name.
std::string numerics_name(Isa isa);

}  // namespace holdfast::kernels::cpu
