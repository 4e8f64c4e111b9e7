// Memory, copies, marks and waits of the hip op set.
#include "kernels/hip/hip_ops.h"

namespace holdfast::kernels::hip {

DeviceScratch::~DeviceScratch() {
  if (memory_ != nullptr) release_on_device(memory_);
}

void* DeviceScratch::at_least(size_t bytes) {
  if (bytes <= bytes_) return memory_;
  stream_.wait();  // queued work may still use it; and this thread is of the device from here on
  if (memory_ != nullptr) release_on_device(memory_);
  memory_ = nullptr;
  bytes_ = 0;
  memory_ = allocate_on_device(bytes);
  bytes_ = bytes;
  ++moves_;
  return memory_;
}

template <typename Element>
void* HipOps<Element>::allocate(size_t bytes) {
  main_.stream.use();
  return allocate_on_device(bytes);
}
template <typename Element>
void HipOps<Element>::release(void* memory) noexcept {
  finish_what_is_queued();
  release_on_device(memory);
}
template <typename Element>
void HipOps<Element>::copy_to_device(void* to, const void* host_from, size_t bytes) {
  const Stream& stream = work();
  if (bytes <= QuickCopies::kLargest) return quick_copies_.copy(to, host_from, bytes);
  stream.copy_to_device(to, host_from, bytes);
  stream.wait();  // the caller may change what it gave
}
template <typename Element>
void HipOps<Element>::copy_to_host(void* host_to, const void* from, size_t bytes) {
  work().copy_to_host(host_to, from, bytes);
  main_.stream.wait();
}
template <typename Element>
void HipOps<Element>::zero(void* memory, size_t bytes) {
  side_.make_way({}, {{memory, bytes}});
  main_.stream.zero(memory, bytes);
}
template <typename Element>
std::vector<const Stream*> HipOps<Element>::streams() const {
  std::vector<const Stream*> all{&main_.stream, &to_host_, &to_device_};
  if (beside_ != nullptr) all.push_back(&beside_->stream);
  return all;
}
template <typename Element>
void HipOps<Element>::synchronize() {
  for (const Stream* stream : streams()) stream->wait();
}

// Before memory is given back that it may use.
template <typename Element>
void HipOps<Element>::finish_what_is_queued() noexcept {
  for (const Stream* stream : streams()) {
    try {
      stream->wait();
    } catch (...) {  // of a device that failed there is no more to be had
    }
  }
}

template <typename Element>
void* HipOps<Element>::allocate_staging(size_t bytes) {
  main_.stream.use();
  return allocate_pinned(bytes);
}
template <typename Element>
void HipOps<Element>::release_staging(void* memory) noexcept {
  finish_what_is_queued();
  release_pinned(memory);
}
template <typename Element>
auto HipOps<Element>::begin_copy_to_host(void* staging_to, const void* from, size_t bytes) -> Copy {
  Event(work()).hold_up(to_host_);
  to_host_.copy_to_host(staging_to, from, bytes);
  Event done(to_host_);
  const std::lock_guard lock(copies_mutex_);
  copies_.emplace(++last_copy_, std::move(done));
  return last_copy_;
}
template <typename Element>
void HipOps<Element>::finish_copy(Copy copy) {
  typename decltype(copies_)::node_type found;
  {
    const std::lock_guard lock(copies_mutex_);
    found = copies_.extract(copy);
  }
  if (!found.empty()) found.mapped().wait();
}
template <typename Element>
void HipOps<Element>::begin_copy_to_device(void* to, const void* staging_from, size_t bytes) {
  to_device_.copy_to_device(to, staging_from, bytes);
}
template <typename Element>
void HipOps<Element>::await_copies() {
  Event(to_device_).hold_up(main_.stream);
}

// Its moments are of the main stream, after all that is beside it.
template <typename Element>
std::unique_ptr<DeviceSums> HipOps<Element>::make_sums() {
  return make_library_sums(main_.stream, [this] { side_.join(); });
}

template <typename Element>
void HipOps<Element>::mark() {
  side_.join();
  marks_.add();
}
template <typename Element>
std::vector<int64_t> HipOps<Element>::take_marks() {
  side_.join();
  return marks_.take();
}

template class HipOps<float>;
template class HipOps<BFloat16>;
template class HipOps<Float16>;

}  // namespace holdfast::kernels::hip
