// Everything a worker holds for one job: its data, model, state and buffers.
//
// Memory of a prepared worker, in units of the parameters as float32 (P = 120.6 MB for Tiny): parameters, gradients, both
// AdamW moments and the sums of the reduction take 5 P (4.5 P with int16 on the wire; 7 P with int8, for its rounding
// errors); 16-bit dtypes take half a P more for the cast parameters. Where the state is divided, with replicas / N = f, the
// moments' 2 P are 2 f P, and with 16-bit dtypes the float32 parameters f P. With `shard` gradients the gradients' P is what
// one layer has of it (on a GPU beside the head's), and of the sums f is here, and a bucket (scattered_gradients.h). On
// top come the activations of one microbatch, one row of a tied embedding for each of its tokens (sparse_rows.h; as many from
// each rank while they are gathered), and the ops' scratch. The rank that writes checkpoints holds another 3 P while it writes.
// On a GPU all this is GPU memory, except for checkpoints; a worker of a job of several nodes then takes 2 P of the host's
// memory (1.5 P with int16 on the wire) for staging, and 3 P while a state is handed over or read. Promises: a session from
// `prepare_session` can train. Refuses: with one sentence for the user. Thread: one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "kernels/ops.h"
#include "model/data/training_data.h"
#include "model/gpt2.h"
#include "model/initial_values.h"
#include "model/state/train_state.h"
#include "rendezvous/protocol/job_spec.h"
#include "rendezvous/protocol/messages.h"
#include "worker/gradients/accumulator.h"
#include "worker/gradients/buckets.h"
#include "worker/gradients/scattered_gradients.h"
#include "worker/session/data_files.h"
#include "worker/session/memory_limit.h"
#include "worker/session/ownership.h"
#include "worker/session/patience.h"
#include "worker/session/run_stop.h"

namespace holdfast::worker {

struct Session {
  std::string job;
  rendezvous::JobSpec spec;
  DataFiles data;
  std::unique_ptr<model::InitialValues> initial;  // of the seed, or of init_from
  std::string init_digest;                        // of init_from's; "": of the seed
  model::TrainingData training;                   // over the training files of `data`
  std::unique_ptr<kernels::DeviceOps> ops;
  std::unique_ptr<kernels::DeviceOps> host_ops;  // where the state is offloaded to the host; else null
  std::unique_ptr<model::Gpt2> model;
  std::unique_ptr<model::TrainState> state;
  std::unique_ptr<GradientAccumulator> gradients;  // null where gradients are scattered
  std::vector<GradientBucket> buckets;             // in the order in which they are reduced
  std::unique_ptr<ScatteredGradients> scattered;   // null where each rank has them whole
  Patience patience{std::chrono::seconds(30), std::chrono::milliseconds(rendezvous::RegisterReply{}.lease_ms)};
  bool has_state = false;      // `state` is one that the job was in
  int64_t repacked_steps = 0;  // on this rank: steps whose gradients outgrew their fixed-point scale
  // The number of steps directly before `state` that changed nothing because their gradient was not finite, though the loss
  // scale was 1.
  int64_t refused_in_row = 0;
  bool refused_last = false;  // the last step before `state` changed nothing, whatever the loss scale was
  // The exponents chosen for a step whose state has none yet, as a job's first; and that step, -1: none.
  int64_t first_exponents_of = -1;
  std::vector<int32_t> first_exponents;
  // Where the state is divided among the ranks (worker/state/divided/agreement.h): who owns which chunk in this generation, and
  // by chunk whether this rank has its moments, and they are right.
  Ownership ownership;
  std::vector<bool> sound;
  std::vector<bool> copied;   // by chunk, whether its compute copy has come to this rank, where copies stay
  int64_t applied_step = -1;  // the step whose mean gradient the model's buffer still has, once it was applied; -1: none
  // The same where the state is divided: of what this rank owns, applied or not.
  struct Summed {
    int64_t step = -1;
    std::vector<int32_t> next_exponents;
    double norm = 0;  // of the whole gradient, once it was applied
  } summed;

  // Digests of what this rank owned after that step, the last of a generation (worker/state/divided/early_digests.h): by piece
  // of the state, nothing where there is none. Used once, by the next agreement.
  struct Digested {
    int64_t step = -1;
    std::vector<std::optional<storage::PieceDigest>> digests;
  } digested;

  // Makes `given` the job's spec; the length of the training data, which is open, says how many steps epochs are.
  void take(const rendezvous::JobSpec& given);

  bool is_divided() const { return spec.shard != "none"; }

  // The state and the sums that are held do not count any more.
  void distrust() {
    has_state = false;
    sound.assign(sound.size(), false);
    first_exponents_of = -1;
    digested = {};
    forget_sums();
  }

  // Of the gradients, in whichever way they are kept.
  bool is_exact() const { return scattered != nullptr || gradients->exact(); }
  const ExponentRule& rule() const { return scattered ? scattered->rule() : gradients->rule(); }
  // The mean over the global batch, where it was unpacked and its memory was not used since.
  model::Gradient mean_gradient() const { return scattered ? scattered->mean() : model::Gradient{model->gradients()}; }
  // The microbatches that are kept of a step that failed (GradientAccumulator::kept).
  std::vector<int64_t> kept_microbatches(std::span<const int32_t> exponents) const {
    return scattered ? std::vector<int64_t>() : gradients->kept(state->step, exponents);
  }
  void forget_sums() {
    if (gradients) gradients->forget();
  }

  // The model's gradient buffer is about to be used for another step.
  void lose_gradient() {
    applied_step = -1;
    summed = {};
  }

  int64_t held_step() const { return has_state ? state->step : -1; }
};

// The number of threads for the host's work on states: as many as the device has, or as the machine has where the device has
// none; at most `most`.
int host_threads(const kernels::DeviceOps& ops, int most);

// AdamW's settings. The schedule counts optimizer steps; a step of the job has sync_every of them.
model::OptimizerConfig optimizer_config(const rendezvous::JobSpec& spec);

tl::expected<std::unique_ptr<Session>, std::string> prepare_session(const std::string& job, const rendezvous::JobSpec& spec,
                                                                    const DataPlaces& places,
                                                                    const kernels::OpsFactory& make_ops,
                                                                    const MemoryLimit& limit = {});

// State 0: parameters as session.initial has them, moments 0, exponents unset. Where the state is divided, the parameters come
// when the ranks have agreed who owns what (worker/state/divided/agreement.h).
RunResult<void> reset_to_initial(Session& session);

}  // namespace holdfast::worker
