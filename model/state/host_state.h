// A state as the host sees it, for whoever sends it, reads it from a checkpoint or cuts it into pieces: its own bytes where the
// ops' memory is the host's, else a copy, which takes as much host memory as the state takes of the device's.
//
// Promises: `tensors` are those of TrainState::tensors(), in their order. Thread: the ops' own; the bytes, whoever's.
#pragma once

#include <memory>
#include <vector>

#include "model/state/train_state.h"

namespace holdfast::model {

class HostState {
 public:
  // Both outlive it. Of a copy, bytes are unspecified before `fetch`.
  HostState(TrainState& state, kernels::DeviceOps& ops);

  const std::vector<StateTensor>& tensors() const { return tensors_; }
  void fetch();  // the state's bytes are here
  void
  put();  // this memory is the state's bytes; then the caller calls TrainState::bytes_changed, and says what step they are of

 private:
  kernels::DeviceOps& ops_;
  std::vector<StateTensor> of_device_, tensors_;  // the same where there is no copy
  std::unique_ptr<std::byte[]> copy_;
};

}  // namespace holdfast::model
