// One loop, compiled once per instruction set and chosen when the program is loaded; the compiler vectorises it.
//
// Promises: the same bits in each, as products and sums are never fused (-ffp-contract=off) and no sum is reordered.
// The sanitizers cannot run the resolver that early, and get the plain one.
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HOLDFAST_PER_INSTRUCTION_SET __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define HOLDFAST_PER_INSTRUCTION_SET
#endif
