// GPT-2 written out: pre-LayerNorm, GELU (tanh), learned positions, a head that is tied to the embedding (Radford et al. 2019,
// section 2.3) or has a matrix of its own.
//
// Promises: the gradient of a microbatch is a pure function of (parameters, tokens, targets): the same bits on every
// worker with the same `DeviceInfo::numerics`, whatever its threads. No allocation after the constructor.
// Refuses: a configuration that cannot be built, with all that is wrong in it named (Gpt2Config::problems).
// Thread: one Gpt2 belongs to one thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "model/device_buffer.h"
#include "model/distinct_tokens.h"
#include "model/gradient_memory.h"
#include "model/initial_values.h"
#include "model/parameter_table.h"
#include "model/recompute.h"

namespace holdfast::model {

struct Activations;
struct ComputeCopy;
struct ParameterViews;

// Thrown out of a forward or backward pass when the interrupt flag is seen. Gradients are then unspecified;
// parameters are untouched.
struct Interrupted {};

// Told of a range of the flat gradients that the pass under way will not touch again. On the thread that runs the pass.
using OnGradients = std::function<void(int64_t first, int64_t count)>;

// The gradient of an embedding that is tied to the head: the sum of both parts, or the encoder's apart from the head's.
enum class TiedGradient : uint8_t { kTogether, kApart };

// The encoder's part of the tied embedding's gradient: rows of some tokens, the others are zero.
struct TokenGradient {
  std::span<const int32_t> ids;  // (R) ascending; host memory
  const float* rows;             // (R, C) device memory
};

// The place of the float32 parameters: in the model, flat; or elsewhere, in parts (TrainState): then the model has the memory
// that the passes read alone, which is for activations of 16 bits.
enum class Masters : uint8_t { kInModel, kElsewhere };

// The memory that passes read parameters from: for the whole table; or, where masters are elsewhere, for what is in no layer
// and for two layers at a time. Then a pass asks for each of these before it needs it (LayerBringer).
enum class Copies : uint8_t { kWhole, kByLayer };
inline constexpr int64_t kNoLayer = -1;  // wte, wpe, ln_f and the head

// Brings compute copies by layer, or of kNoLayer: copy_of() of all its chunks becomes what the state has. `begin`: the memory
// for it is free. `finish`: it is needed, and was begun. A pass begins the next layer before it computes one. Both are called
// on the thread of the pass, which what they throw leaves.
struct LayerBringer {
  std::function<void(int64_t layer)> begin, finish;
};

struct ModelMemory {
  Masters masters = Masters::kInModel;
  Copies copies = Copies::kWhole;
  Gradients gradients = Gradients::kWhole;
};

// Of training. Whatever it says, passes that evaluate drop nothing.
struct Recipe {
  // The probability with which elements are dropped (kernels/dropout.h): of the embeddings, of attention's probabilities, and
  // of what attention and MLP add.
  double dropout = 0;
  uint64_t seed = 0;  // the job's
  // Else the gradients of biases, of linear layers and LayerNorm, are 0, so biases that begin at 0 stay there.
  bool trains_biases = true;
};

// Of a microbatch in a job, whoever computes it.
struct MicrobatchPlace {
  int64_t step = 0, microbatch = 0;
};

class Gpt2 {
 public:
  // Microbatches have `batch_size` sequences of config.block_size tokens. `ops` outlives the model.
  Gpt2(const Gpt2Config& config, kernels::DeviceOps& ops, int64_t batch_size, Recompute recompute = Recompute::kNone,
       ModelMemory memory = {});

  ~Gpt2();
  Gpt2(const Gpt2&) = delete;
  Gpt2& operator=(const Gpt2&) = delete;

  const Gpt2Config& config() const { return config_; }
  const ParameterTable& table() const { return table_; }

  // Flat, float32, in table order; table().total elements each. Device memory owned by the model. Null: parameters that are
  // elsewhere, and gradients that are there by range alone.
  Masters masters() const { return memory_.masters; }
  float* parameters() { return parameters_.data<float>(); }
  float* gradients() { return gradients_.flat(); }
  // Of elements of one tensor of the table, while they are there.
  const float* gradient_at(Elements part) const { return gradients_.at(part); }

  // For parameters in the model. After an error they have no values that count.
  tl::expected<void, std::string> initialize(const InitialValues& initial);
  void initialize(uint64_t seed);  // SeededValues

  // Call after parameters were changed from outside (optimizer, load, copy).
  void parameters_changed();
  // The same in parts. A range lies in one tensor. `refresh`: its masters, which are at `masters` on the device, were changed.
  // `copies_changed`: after all changes of compute copies.
  ComputeCopy copy_of(Elements range) const;
  void refresh(Elements range, const float* masters);
  void copies_changed();

  // Where copies are by layer. It is not asked for what is there since the last call of set_bringer or copies_changed. Null:
  // whatever the memory holds is used.
  void set_bringer(LayerBringer bringer);
  bool copies_by_layer() const { return memory_.copies == Copies::kByLayer; }
  // As a pass does that goes through its layers, forward and then backward: for ranks that compute nothing while others do,
  // who must bring the same in the same order.
  void need_forward();
  void need_backward(int64_t layer);

  // From the next pass on.
  void set_recipe(const Recipe& recipe) {
    recipe_ = recipe;
    ++recipes_;
  }

  // Passes take their gradients times 2^log2 from the loss on, exactly, so that those that float16 stores do not vanish
  // (loss_scale.h); parameters and losses are not scaled. 0, which scales nothing, until somebody says otherwise.
  void set_loss_scale(int log2) { loss_scale_log2_ = log2; }
  int loss_scale_log2() const { return loss_scale_log2_; }

  // One microbatch forward and backward; overwrites gradients() with d(mean loss)/d(parameters), times the loss scale. Returns
  // the mean loss.
  // tokens, targets: host memory, (batch_size, block_size), ids below vocab_size.
  // `on_gradients` (may be null) is called once for each range of gradient_order(), in that order, as they become final. With
  // it, a tied wte's ranges get the head's part alone, which can be there long before the encoder's; that is then in
  // token_gradient(), at the latest when on_gradients is told of the last range but those of wte. `tied` has the parts apart
  // without it, too: then a device that can queues the pass as a whole (kernels/op_sequence.h), unless layers are brought.
  // `place` decides what is dropped.
  double train_microbatch(std::span<const int32_t> tokens, std::span<const int32_t> targets,
                          const OnGradients& on_gradients = nullptr, TiedGradient tied = TiedGradient::kTogether,
                          MicrobatchPlace place = {});
  // The order in which a backward pass finishes the gradients: ParameterTable::backward_order, or backward_parts where they
  // come by range. A partition of the table, the same for every pass.
  const std::vector<Elements>& gradient_order() const { return gradients_.order(); }

  // Of the last microbatch that was trained on, until the next pass: what a tied wte's full gradient has beside what is in
  // gradients(). Where the parts are together, or wte is not tied, there are no rows.
  TokenGradient token_gradient() const;

  // The sequence of train_microbatch's ops: how often it was queued as a whole, or why it is not.
  const kernels::OpSequence& pass() const { return *pass_; }

  // Mean loss without gradients; the gradients are left as they are.
  double evaluate_microbatch(std::span<const int32_t> tokens, std::span<const int32_t> targets);

  // The model's allocations on the device, by purpose. The ops' own scratch comes on top.
  struct MemoryUse {
    size_t parameters, cast_parameters, gradients, activations;  // bytes
  };
  MemoryUse memory_use() const;

  // While *flag is true, passes throw Interrupted at the next layer boundary; those that are queued as a whole, before and
  // after that. `flag` outlives the model; may be null.
  void set_interrupt(const std::atomic<bool>* flag) { interrupt_ = flag; }

 private:
  // The passes over the first `B` x `T` tokens of the arena.
  void forward(int64_t B, int64_t T);  // encoder, layers, last LayerNorm: leaves `normed`
  void layer_forward(int64_t layer, int64_t B, int64_t T);
  // The two parts of a layer; each enters with the LayerNorm's output in `normed`.
  void attention_forward(int64_t layer, int64_t B, int64_t T);
  void mlp_forward(int64_t layer, int64_t N);
  void layer_recompute(int64_t layer, int64_t B, int64_t T);  // the parts that are not kept
  // From `normed` through the head down to the encoder's positions; tells of all ranges before those.
  void backward(int64_t B, int64_t T, const OnGradients& on_gradients);
  // `part_done`: the gradients of a part (ParameterTable::backward_parts) are final, and it is not the last.
  void layer_backward(int64_t layer, int64_t B, int64_t T, const std::function<void()>& part_done);
  // `next`: the layer that is needed after it, or kNoLayer.
  void need(int64_t layer, int64_t next);
  void begin_bringing(int64_t layer);
  void token_backward(const OnGradients& on_gradients);
  void head_rows_backward(const OnGradients& on_gradients);
  void load(std::span<const int32_t> tokens, std::span<const int32_t> targets);

  Gpt2Config config_;
  ParameterTable table_;
  kernels::DeviceOps& ops_;
  int64_t batch_size_;
  Recompute recompute_;
  ModelMemory memory_;
  DeviceBuffer parameters_;
  GradientMemory gradients_;
  LayerBringer bringer_;
  struct Brought {
    bool is_begun = false, is_here = false;
    int64_t layer = kNoLayer;
  };
  std::array<Brought, 3> brought_;  // of copies by layer: the even ones' memory, the odd ones', and that outside of layers
  std::unique_ptr<ParameterViews> views_;
  std::unique_ptr<Activations> activations_;
  std::unique_ptr<kernels::OpSequence> pass_;
  DistinctTokens distinct_;
  bool rows_apart_ = false;  // the encoder's part of wte's gradient is in the activations' token_gradient
  int loss_scale_log2_ = 0;
  Recipe recipe_;
  uint32_t recipes_ = 0;      // how many there were
  kernels::Dropout dropped_;  // in the pass under way
  const std::atomic<bool>* interrupt_ = nullptr;
};

}  // namespace holdfast::model
