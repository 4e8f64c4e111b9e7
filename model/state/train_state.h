// Everything that decides the bits of the steps to come: parameters, AdamW moments, reduction exponents, in float16 the loss
// scale, and the step.
//
// A state may be divided among workers: then a rank has the moments of the chunks (ParameterTable::chunks) that it owns, and of
// these alone its parameters count. The passes of all ranks read compute copies (ParameterViews), which owners give to the
// others after each step; in float32 a compute copy is the parameters themselves, else (Masters::kElsewhere) a rank has no
// parameters but those that it owns. Offloaded, parameters and moments are in the host's memory, and AdamW runs there
// (Rajbhandari et al. 2021): the device has gradients and compute copies. Promises: `tensors()` and `pieces()` list it
// all as named byte spans in one fixed order; saving, hashing and copying walk these and nothing else, so what is hashed is
// what is saved is what is copied.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/gpt2.h"
#include "model/loss_scale.h"
#include "model/optimizer.h"
#include "model/state/lent.h"
#include "storage/state_hash.h"

namespace holdfast::model {

// A tensor of the state as bytes, in device memory unless `on_host`.
struct StateTensor {
  std::string name;   // "wte.weight", "exp_avg/wte.weight", "exp_avg_sq/wte.weight", "reduction/exponents", "loss_scale"
  std::string dtype;  // "float32", "int32"
  std::vector<int64_t> shape;
  std::byte* data;
  size_t bytes;
  bool on_host = false;   // the exponents, the loss scale; offloaded, all
  bool in_chunks = true;  // all but those two
};

// A piece of a tensor of the state, as its hash cuts it (storage/state_hash.h).
struct StatePiece {
  std::byte* data;  // null: it is not here
  size_t bytes;
  bool on_host = false;
};

class TrainState {
 public:
  enum class Owns : uint8_t { kAll, kNothing };
  // `model` and the ops outlive the state. Moments start at 0, exponents unset, step 0. The model's loss scale is from now on
  // what this says; in other dtypes than float16 that is 1. `host`: null, or an op set of the host and of the same dtype, to
  // which the state is offloaded; the model's masters are elsewhere then.
  TrainState(Gpt2& model, kernels::DeviceOps& ops, Owns owns = Owns::kAll, kernels::DeviceOps* host = nullptr);

  int64_t step = 0;  // steps applied

  // Somebody reads bytes of tensors() from now until `wait` returns, which is called before any of them are changed, given back
  // or given out once more. For one reader at a time. Not for who changes parameters beside this (local steps).
  void lend(std::function<void()> wait) { lent_.lend(std::move(wait)); }

  // One per parameter tensor: the power of two of the next step's fixed-point scale; kUnsetExponent before the first.
  static constexpr int32_t kUnsetExponent = INT32_MIN;
  std::span<int32_t> exponents();

  // By chunk, whether this rank owns it.
  const std::vector<bool>& owned() const { return owned_; }
  // Chunks that are owned already stay as they are; moments of others begin at 0, and so do parameters where they are not the
  // model's; those of chunks that are `awaited` are unspecified. Chunks that are not owned any more are given up. On
  // the host no chunk changes its place; elsewhere it takes memory for the old and the new at once, and throws what
  // DeviceOps::allocate does, and then nothing has changed.
  void own(const std::vector<bool>& chunks, const std::vector<bool>& awaited = {});
  // Chunks that are owned and whose bytes are still to come: steps pass them over. Others are awaited no more.
  void await(const std::vector<bool>& chunks);
  // Parameters and compute copies, of all that is here, have their initial values. After an error none count.
  tl::expected<void, std::string> initialize(const InitialValues& initial);

  // By chunk, the sums of squares of `gradient` (the mean over the global batch), of the chunks that are `wanted`, which are
  // owned; 0 of others.
  std::vector<double> squares(const Gradient& gradient, const std::vector<bool>& wanted);
  // Applies one AdamW step with `gradient`, which must be there where chunks are owned, to these; step += 1. `norm`: that of
  // all of the gradient, before clipping. A norm that is not finite changes nothing.
  void apply(const OptimizerConfig& config, const Gradient& gradient, double norm);
  // The same with a gradient that is all here, model.table().total floats. Returns its norm.
  double apply(const OptimizerConfig& config, const float* gradients);
  // The step is left out, for it has no finite gradient: step += 1, and in float16 the loss scale is halved.
  void leave_out();

  // Applies one outer step (SGD with Nesterov momentum, which takes exp_avg's place; exp_avg_sq stays 0) with the mean over
  // replicas of how far their local steps led, before - after. Otherwise as `apply`; the norm is that of the mean. For a state
  // that is all here.
  double apply_outer(const kernels::NesterovStep& settings, const float* difference);

  // That of the next step, as a power of two. `gradients` of `apply` are without it.
  int loss_scale_log2() const { return loss_scale_ ? loss_scale_->log2 : 0; }

  // Parameters, then exp_avg, then exp_avg_sq, each in table order, then the exponents; in float16 then the loss scale: its
  // power of two, and the number of steps since it changed. For the host: host_state.h. Moments have no data in a state that
  // is not all here, nor have parameters where they are apart.
  std::vector<StateTensor> tensors();
  // The same, cut. Chunk c is piece c; its moments are pieces C + c and 2 C + c of C chunks. Parameters of a chunk that this
  // rank does not own are not here where compute copies are apart.
  std::vector<StatePiece> pieces();
  // After bytes of tensors() or pieces() were written from outside; `refresh`: of a chunk that is owned, its compute copy.
  void bytes_changed();
  void refresh(size_t chunk);
  // The compute copies of all chunks, where they stay. After these were written from outside: `copies_changed`.
  std::vector<StatePiece> copies();
  void copies_changed() { model_.copies_changed(); }
  // Whether parameters are apart from the compute copies: then only owners have those of a chunk.
  bool copies_apart() const { return model_.masters() == Masters::kElsewhere; }
  // Whether there are compute copies apart from them that stay from pass to pass.
  bool copies_stay() const { return copies_apart() && !model_.copies_by_layer(); }

  // Digests of these pieces, as far as they are here; of others nothing.
  std::vector<std::optional<storage::PieceDigest>> digests(const std::vector<StatePiece>& here);
  std::vector<std::optional<storage::PieceDigest>> digests() { return digests(pieces()); }
  // The state's hash, of a state that is all here; 32 lower-case hex digits.
  std::string hash();

 private:
  std::vector<std::optional<storage::PieceDigest>> digests_on_host(const std::vector<StatePiece>& here);
  void applied(double norm);
  // A piece at a time, while the device copies the next one's gradient to the host.
  void apply_on_host(const OptimizerConfig& config, const Gradient& gradient, double norm);
  void refresh_from(size_t chunk, const float* masters);
  DeviceBuffer floats(int64_t count) const;  // where parameters and moments are
  std::vector<DeviceBuffer*> buffers();      // of what is owned
  void own_in_place(const std::vector<bool>& chunks, const std::vector<bool>& awaited);
  void own_elsewhere(const std::vector<bool>& chunks, const std::vector<bool>& awaited);
  Layout layout() const { return in_place_ ? Layout::kTable : Layout::kOwned; }
  int64_t place_of(size_t chunk) const { return in_place_ ? chunks_[chunk].first : places_[chunk]; }
  bool offloaded() const { return host_ != nullptr; }
  kernels::DeviceOps& keeper() const { return offloaded() ? *host_ : ops_; }
  std::vector<double> squares_of_sums(const Gradient& gradient, const std::vector<bool>& wanted);
  float* unpacked();  // of kUnpackedElements
  // Of a chunk that is owned, and of all where they are the model's: where its parameters are.
  float* parameters_of(size_t chunk);
  bool is_whole() const { return owned_elements_ == model_.table().total; }

  Gpt2& model_;
  kernels::DeviceOps& ops_;
  kernels::DeviceOps* const host_;
  const bool divided_;
  const bool in_place_;  // divided on the host: what is owned is at its place in the table, in reserved memory of all of it
  std::vector<Elements> chunks_;
  std::vector<bool> owned_, awaited_;  // by chunk
  std::vector<OwnedElements> slices_;  // ranges of what is owned and not awaited
  std::vector<int64_t> places_;        // by chunk, where it begins among owned elements end to end; -1: it is not owned
  int64_t owned_elements_ = 0;
  DeviceBuffer parameters_, m_, v_;   // of owned elements, in layout(); parameters: where they are not the model's
  DeviceBuffer unpacked_;             // taken when a gradient comes as sums
  std::vector<float> host_unpacked_;  // the same, offloaded
  DeviceBuffer passing_;              // offloaded: two pieces of a gradient, or a chunk's compute copy
  std::vector<int32_t> exponents_;
  std::optional<LossScale> loss_scale_;  // of float16
  Lent lent_;                            // last: the others are not given back before it is
};

}  // namespace holdfast::model
