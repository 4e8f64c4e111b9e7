// The parameters of a GPT-2 as one table of names, shapes and places in a flat buffer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::model {

struct Gpt2Config {
  int64_t n_layer = 0, n_embd = 0, n_head = 0, vocab_size = 0, block_size = 0;
  bool ties_head = true;  // the head's matrix is wte, as GPT-2's; else it is a tensor of its own, lm_head.weight

  // Every way in which this cannot be built, each as "field: what is wrong"; empty when it can.
  std::vector<std::string> problems() const;
  bool operator==(const Gpt2Config&) const = default;
};

// One parameter tensor. Matrices are (out, in), as in torch.nn.Linear.
struct Parameter {
  std::string name;  // GPT-2's own: "wte.weight", "h.0.attn.c_attn.weight", ...
  std::vector<int64_t> shape;
  int64_t offset = 0, count = 0;  // elements, in the flat buffer
  bool decay = false;             // weight decay applies: matrices only
  bool is_bias() const { return name.ends_with(".bias"); }
};

inline constexpr const char* kHeadName = "lm_head.weight";  // of a head that is not tied, as Hugging Face has it
inline constexpr int64_t kChunkElements = 65536;

// A range of the flat buffer.
struct Elements {
  int64_t first = 0, count = 0;
  bool operator==(const Elements&) const = default;
};

// A part of one tensor of the table.
struct TensorPart {
  size_t tensor;  // its index
  Elements elements;
};

struct ParameterTable {
  std::vector<Parameter> entries;  // offsets ascending, without gaps
  int64_t total = 0;               // elements
  size_t head = 0;                 // the tensor that is the head's matrix: wte, which is the first, or the last

  explicit ParameterTable(const Gpt2Config& config);
  const Parameter& operator[](std::string_view name) const;  // precondition: the name is there
  bool ties_head() const { return head == 0; }
  // The index of a layer's first tensor; of the layer n_layer, which there is not, that of ln_f's.
  static constexpr size_t first_of_layer(int64_t layer) { return 2 + 12 * static_cast<size_t>(layer); }
  Elements elements_of(size_t tensor) const { return {entries[tensor].offset, entries[tensor].count}; }
  // The head's matrix (of a wte that is tied to it, as far as the head goes); ln_f; each layer, from the last to the first;
  // wpe; wte, where it is not tied: the order in which a backward pass finishes them.
  std::vector<Elements> backward_order() const;
  // The same in smaller parts: a layer comes in three: mlp.c_proj, then ln_2 and mlp.c_fc, then the rest. Where `head_rows` is
  // not 0 the head's matrix comes last, in multiples of so many rows that are no larger than the largest part of the layers, if
  // that has so many. So does a wte that is not tied, before it.
  std::vector<Elements> backward_parts(int64_t head_rows) const;
  // A range cut where tensors end.
  std::vector<TensorPart> cut(Elements range) const;
  // The number of the layer that a tensor belongs to; -1: to none (wte, wpe, ln_f, the head).
  int64_t layer_of(size_t tensor) const;
  // The parts in which a state may be divided among workers: kChunkElements elements of one tensor, its last one fewer. In
  // table order, whoever owns them; a chunk's moments go with it.
  std::vector<Elements> chunks() const;
};

}  // namespace holdfast::model
