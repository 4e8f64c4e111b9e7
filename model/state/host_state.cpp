#include "model/state/host_state.h"

namespace holdfast::model {

HostState::HostState(TrainState& state, kernels::DeviceOps& ops)
    : ops_(ops), of_device_(state.tensors()), tensors_(of_device_) {
  if (ops.memory_is_host()) return;
  size_t bytes = 0;
  for (const StateTensor& tensor : of_device_) bytes += tensor.on_host ? 0 : tensor.bytes;
  copy_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::byte* next = copy_.get();
  for (StateTensor& tensor : tensors_) {
    if (tensor.on_host) continue;
    tensor.data = next;
    next += tensor.bytes;
  }
}

void HostState::fetch() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].data != of_device_[i].data) ops_.copy_to_host(tensors_[i].data, of_device_[i].data, tensors_[i].bytes);
  }
}

void HostState::put() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].data != of_device_[i].data) ops_.copy_to_device(of_device_[i].data, tensors_[i].data, tensors_[i].bytes);
  }
}

}  // namespace holdfast::model
