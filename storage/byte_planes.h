// Elements of 2 or 4 bytes to and from planes: plane k holds byte k of every element, in order.
//
// Exponents of neighbouring floats are alike and mantissas are noise; told apart, the former compress.
// Memory: `elements` * width bytes read and as many written. Loops that compilers vectorise; no alignment is needed.
#pragma once

#include <cstddef>

namespace holdfast::storage {

// planes[k][i] = elements[i * width + k], for i in [0, count)
void split_planes(const std::byte* elements, size_t count, int width, std::byte* const* planes);
void join_planes(const std::byte* const* planes, size_t count, int width, std::byte* elements);

}  // namespace holdfast::storage
