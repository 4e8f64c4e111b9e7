// A model that writes text: forward passes over tokens of many sequences at once, whose keys and values are kept, so that a
// token costs its own row alone.
//
// Promises: logits and losses of a token are a function of (parameters, the op set's numerics and type, the tokens up to it)
// and of nothing else: not of the other sequences of a pass, of how a sequence was cut into passes, or of its pages. They are
// those of Gpt2's forward pass over block_size tokens, where kernels/decode_ops.h says so. Weights are read from memory once a
// pass. No allocation in a pass but of its result. A model may be divided: a decoder has some of its layers, and those before
// them are another's (EarlierLayers), with the same bits as of one. Refuses: a configuration that cannot be built, as Gpt2 does
// (std::invalid_argument); values that cannot be read (its error). Positions of a sequence are below block_size, and its tokens
// below vocab_size: preconditions. Thread: one Decoder belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "kernels/ops.h"
#include "model/device_buffer.h"
#include "model/initial_values.h"
#include "model/parameter_table.h"

namespace holdfast::model {

// Tokens that follow each other in one sequence, and are fed in one pass. Earlier passes fed the tokens before `position`, or
// these are in pages that others filled with the same tokens.
struct Feed {
  std::span<const int32_t> tokens;
  int64_t position = 0;            // of the first of them
  std::span<const int32_t> pages;  // of positions 0 .. 31, 32 .. 63, ...: at least up to the last token's
  int64_t answers = 1;             // the last so many of the tokens get logits; at most all
};

// The layers that a decoder of a divided model has: from `first` up to `end`.
struct LayerRange {
  int64_t first = 0, end = 0;
  bool operator==(const LayerRange&) const = default;
};

// The rows of a pass between two layers: the residual stream (N, C), and the branch (N, C) that the next layer adds to it
// first, in the activations' type. Host memory.
struct BetweenLayers {
  std::span<const float> residual;
  std::span<const std::byte> branch;
};

// The seam to the layers before a decoder's first.
class EarlierLayers {
 public:
  virtual ~EarlierLayers() = default;
  // A pass through them; valid until the next. Throws what says that they are lost.
  virtual BetweenLayers feed(std::span<const Feed> feeds) = 0;
};

class Decoder {
 public:
  struct Limits {
    int64_t pages = 0;    // kept at once; each holds kernels::kPageTokens positions of one sequence
    int64_t rows = 0;     // tokens of a pass
    int64_t answers = 0;  // rows of logits of a pass
  };

  // `ops` makes decode ops, and outlives it. The parameters are read from `values` once, a tensor at a time.
  static tl::expected<std::unique_ptr<Decoder>, std::string> make(const Gpt2Config& config, kernels::DeviceOps& ops,
                                                                  const InitialValues& values, const Limits& limits,
                                                                  kernels::WeightForm form = kernels::WeightForm::kActivations);
  // With these layers alone, of which there is at least one. `earlier` has those before them, and outlives it; null for the
  // first. Values of other layers are not read.
  static tl::expected<std::unique_ptr<Decoder>, std::string> make_part(const Gpt2Config& config, kernels::DeviceOps& ops,
                                                                       const InitialValues& values, const Limits& limits,
                                                                       kernels::WeightForm form, LayerRange layers,
                                                                       EarlierLayers* earlier);
  ~Decoder();
  // Bytes of a page, in all layers.
  static size_t page_bytes(const Gpt2Config& config, kernels::DeviceOps& ops);

  const Gpt2Config& config() const { return config_; }
  const Limits& limits() const { return limits_; }
  size_t branch_bytes(int64_t rows) const;
  int64_t pages_of(int64_t tokens) const { return (tokens + kernels::kPageTokens - 1) / kernels::kPageTokens; }

  // A pass. The answers' logits (sum of answers, V), feed after feed, valid until the next pass; host memory.
  std::span<const float> feed(std::span<const Feed> feeds);
  // A pass of a decoder that has not the last layer. `from`: what the layers before its first made; of the first layer nothing.
  BetweenLayers feed_through(std::span<const Feed> feeds, const std::optional<BetweenLayers>& from);
  // Of the last pass: minus the log-probabilities of `ids` (answers, K), K for each.
  std::vector<float> losses(std::span<const int32_t> ids);

  struct MemoryUse {
    size_t weights, pages, activations;  // bytes on the device
  };
  MemoryUse memory_use() const;

 private:
  Decoder(const Gpt2Config& config, kernels::DeviceOps& ops, const Limits& limits, kernels::WeightForm form, LayerRange layers,
          EarlierLayers* earlier);
  bool has_first() const { return layer_range_.first == 0; }
  bool has_last() const { return layer_range_.end == config_.n_layer; }
  tl::expected<void, std::string> load(const InitialValues& values);
  struct Rows {  // of a pass
    std::vector<int32_t> tokens, positions;
    std::vector<kernels::SequenceRows> sequences;
    int64_t answers = 0;
    int64_t count() const { return static_cast<int64_t>(tokens.size()); }
  };
  Rows rows_of(std::span<const Feed> feeds) const;
  void run_layers(const Rows& rows, const std::optional<BetweenLayers>& from);
  void layer(int64_t index, std::span<const kernels::SequenceRows> sequences, int64_t N);

  Gpt2Config config_;
  Limits limits_;
  LayerRange layer_range_;
  EarlierLayers* earlier_;
  ParameterTable table_;
  kernels::DeviceOps& ops_;
  std::unique_ptr<kernels::DecodeOps> decode_;

  struct Linear {
    std::unique_ptr<kernels::DecodeOps::Weight> weight;
    DeviceBuffer bias;
  };
  struct Norm {
    DeviceBuffer weight, bias;
  };
  struct LayerWeights {
    Norm ln_1, ln_2;
    Linear attn, attn_proj, fc, mlp_proj;
  };
  DeviceBuffer wte_rows_, wpe_;  // wte (V, C) in the activations' type: rows for the encoder
  std::unique_ptr<kernels::DecodeOps::Weight> head_;
  std::vector<LayerWeights> layers_;  // of layer_range_
  Norm ln_f_;

  DeviceBuffer pages_;  // by layer
  // For limits_.rows rows: the residual stream twice (one is read, the other written), and what a layer makes of it.
  DeviceBuffer residual_, residual_after_, normed_, qkv_, attention_, branch_, wide_, statistics_;
  DeviceBuffer answers_, logits_;
  std::vector<float> host_logits_, host_residual_;
  std::vector<std::byte> host_branch_;
  int64_t answered_ = 0;  // rows of logits_ of the last pass
};

}  // namespace holdfast::model
