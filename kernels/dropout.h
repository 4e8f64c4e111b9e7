// Dropout (Srivastava et al. 2014): which elements stay is a function of places alone, so that any worker, thread or device
// that computes an element again draws the same for it.
//
// An element has a pass (of the job's seed, the step and the microbatch), a site (the embedding, or one of three in each
// layer), a row (a token; of attention a head's query) and a column (a channel; a key). A row's key is splitmix64's finisher
// (Steele et al. 2014) over the first three; a column's number is murmur3's finisher over both halves of the key. Whole
// numbers, the same on every machine. Plain functions without state, for hosts and for GPUs.
#pragma once

#include <cstdint>

// Of a function that GPUs call, too.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define HOLDFAST_ANYWHERE __host__ __device__
#else
#define HOLDFAST_ANYWHERE
#endif

namespace holdfast::kernels {

// The share that is drawn at a site. `threshold` 0: nothing is dropped there.
struct Dropout {
  uint32_t threshold = 0;  // elements whose number is below it are dropped: the probability times 2^32
  float scale = 1;         // of those that stay: 1 / (1 - the probability)
  uint32_t site = 0;

  constexpr bool is_on() const { return threshold > 0; }
  constexpr Dropout at(uint32_t other) const { return {threshold, scale, other}; }
};

// `probability` of being dropped, at least 0 and below 1.
constexpr Dropout dropout_of(double probability) {
  constexpr double kNumbers = 4294967296;
  const double dropped = probability * kNumbers + 0.5;
  return {dropped < kNumbers ? static_cast<uint32_t>(dropped) : UINT32_MAX, static_cast<float>(1 / (1 - probability)), 0};
}

inline constexpr uint32_t kEmbeddingSite = 0, kSitesOfLayer = 3;
constexpr uint32_t attention_site(int64_t layer) {  // of the probabilities
  return 1 + kSitesOfLayer * static_cast<uint32_t>(layer);
}
constexpr uint32_t attention_output_site(int64_t layer) {
  return attention_site(layer) + 1;
}
constexpr uint32_t mlp_output_site(int64_t layer) {
  return attention_site(layer) + 2;
}

HOLDFAST_ANYWHERE constexpr uint64_t dropout_mix(uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111eb;
  return x ^ (x >> 31U);
}
constexpr uint64_t dropout_pass(uint64_t seed, int64_t step, int64_t microbatch) {
  constexpr uint64_t kGamma = 0x9e3779b97f4a7c15;
  return dropout_mix(dropout_mix(dropout_mix(seed + kGamma) + static_cast<uint64_t>(step) + kGamma) +
                     static_cast<uint64_t>(microbatch) + kGamma);
}
HOLDFAST_ANYWHERE constexpr uint64_t dropout_rows(uint64_t pass, uint32_t site) {  // row 0's key before it is mixed
  return pass + (static_cast<uint64_t>(site) << 40U);
}
HOLDFAST_ANYWHERE constexpr uint64_t dropout_row(uint64_t pass, uint32_t site, int64_t row) {
  return dropout_mix(dropout_rows(pass, site) + static_cast<uint64_t>(row));
}
HOLDFAST_ANYWHERE constexpr uint32_t dropout_number(uint64_t row_key, uint32_t column) {
  uint32_t x = static_cast<uint32_t>(row_key) + column * 0x9e3779b9U;
  x = (x ^ (x >> 16U)) * 0x85ebca6bU;
  x ^= x >> 13U;
  x = (x ^ static_cast<uint32_t>(row_key >> 32U)) * 0xc2b2ae35U;
  return x ^ (x >> 16U);
}
// 0, or the scale.
HOLDFAST_ANYWHERE constexpr float dropout_factor(const Dropout& dropout, uint64_t row_key, int64_t column) {
  return dropout_number(row_key, static_cast<uint32_t>(column)) < dropout.threshold ? 0.0F : dropout.scale;
}

}  // namespace holdfast::kernels
