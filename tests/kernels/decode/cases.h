// The decode ops of an op set: as cases for the comparison with ref (near_ref.h), and what of them is equal bit for bit.
#pragma once

#include <string>
#include <vector>

#include "tests/kernels/op_cases.h"

namespace holdfast::kernels::testing {

// Whether a vendor's library computes the products of a forward pass.
inline bool has_library_products(const DeviceOps& ops) {
  return ops.info().numerics.find("blaslt") != std::string::npos;
}

std::vector<OpCase> decode_cases(DType activations, RandomInputs& random);

// Expects that a row has the bits that it has in a forward pass by `ops`, however rows come together in calls and wherever
// their pages are. Where a library has the products, their rows are only compared with themselves.
void expect_rows_of_a_forward_pass(DeviceOps& ops);

// Expects of products with weights of int8 the bits that ref has.
void expect_int8_products_of_ref(DeviceOps& ops);

// Expects of products with weights of 4 bits the bits of products with the numbers that these mean.
void expect_int4_products_of_what_they_mean(DeviceOps& ops);

}  // namespace holdfast::kernels::testing
