// Compiled once per instruction set: the table that the run-time choice picks.
#include "kernels/cpu/vector/table.h"

#include "kernels/cpu/vector/fill.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {
namespace {

VectorTable filled() {
  VectorTable loops{};
  fill_conversions(loops);
  fill_layernorm(loops);
  fill_activations(loops);
  fill_softmax(loops);
  fill_optimizer(loops);
  fill_fixed_point(loops);
  fill_product(loops);
  fill_dropout(loops);
  fill_int8(loops);
  return loops;
}

}  // namespace

// Filled at the first call and not before main: even storing these addresses may use the instructions.
const VectorTable& table() {
  static const VectorTable kTable = filled();
  return kTable;
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
