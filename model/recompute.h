// Activations that a model computes again in the backward pass instead of keeping them: time for memory.
//
// Promises: the same bits with every setting, for the same ops run on the same inputs. activations.h says what each one keeps,
// and its cost in bytes; the cost in products (of a layer's forward pass, which is a third of a training pass):
//   kNone       nothing is computed again but the LayerNorms' outputs
//   kAttention  the product that makes q, k and v, and attention: a quarter of the layer's products, and all of attention
//   kBlock      the whole layer but its last product: two thirds of its products, and all of attention
// The last layer's is still there when the backward pass begins, and is not computed again.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace holdfast::model {

enum class Recompute : uint8_t { kNone, kAttention, kBlock };

// "none", "attention", "block": the words of the job spec.
constexpr std::optional<Recompute> recompute_of(std::string_view name) {
  if (name == "none") return Recompute::kNone;
  if (name == "attention") return Recompute::kAttention;
  if (name == "block") return Recompute::kBlock;
  return std::nullopt;
}

}  // namespace holdfast::model
