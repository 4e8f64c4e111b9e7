// A test's tensors in an op set's memory. of() copies a tensor there when it is first used; fetch() copies all tensors that
// may have been written back to the host.
//
// Promises: a copy begins at a multiple of 16 bytes, and not always of 64. Const tensors are not written.
// Ownership: the tensors outlive this object.
#pragma once

#include <map>
#include <vector>

#include "kernels/ops.h"
#include "tests/kernels/act_tensor.h"

namespace holdfast::kernels::testing {

class OnDevice {
 public:
  explicit OnDevice(DeviceOps& ops) : ops_(ops) {}
  ~OnDevice() {
    for (const auto& [host, copy] : copies_) ops_.release(copy.memory);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  template <typename T>
  const T* of(const std::vector<T>& x) {
    return static_cast<const T*>(copy_of(x.data(), x.size() * sizeof(T)).data);
  }
  template <typename T>
  T* of(std::vector<T>& x) {
    return static_cast<T*>(written(x.data(), x.size() * sizeof(T)));
  }
  const Act* of(const ActTensor& x) { return static_cast<const Act*>(copy_of(x.act(), x.bytes()).data); }
  Act* of(ActTensor& x) { return static_cast<Act*>(written(x.act(), x.bytes())); }

  void fetch() {
    for (const auto& [host, copy] : copies_) {
      if (copy.back_to != nullptr) ops_.copy_to_host(copy.back_to, copy.data, copy.bytes);
    }
  }

 private:
  struct Copy {
    void *memory, *data;
    size_t bytes;
    void* back_to;  // the host's tensor; null: it is only read
  };
  Copy& copy_of(const void* host, size_t bytes) {
    const auto [found, is_new] = copies_.try_emplace(host);
    Copy& copy = found->second;
    if (is_new) {
      const size_t offset = 16 * (copies_.size() % 4);
      void* const memory = ops_.allocate(bytes + offset);
      copy = {memory, static_cast<char*>(memory) + offset, bytes, nullptr};
      ops_.copy_to_device(copy.data, host, bytes);
    }
    return copy;
  }
  void* written(void* host, size_t bytes) {
    Copy& copy = copy_of(host, bytes);
    copy.back_to = host;
    return copy.data;
  }

  DeviceOps& ops_;
  std::map<const void*, Copy> copies_;
};

}  // namespace holdfast::kernels::testing
