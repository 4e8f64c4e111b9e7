// Sums by RCCL or NCCL. Everything goes through a stream of its own, and every wait is the caller's: a call may still be under
// way when it returns (ncclInProgress), and what it puts into the stream is there only when it is not any more.
#include "kernels/hip/library_sums.h"

#if defined(__CUDACC__)
#include <nccl.h>
#elif __has_include(<rccl/rccl.h>)
#include <rccl/rccl.h>
#else
#include <rccl.h>
#endif

#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 14, 0)
#error "the collectives library is older than 2.14, whose communicators block: update it, or set HOLDFAST_HIP_SUMS=none"
#endif

namespace holdfast::kernels::hip {
namespace {

#if defined(__CUDACC__)
constexpr const char* kLibrary = "NCCL";
#else
constexpr const char* kLibrary = "RCCL";
#endif

class LibrarySums final : public DeviceSums {
 public:
  LibrarySums(const Stream& work, std::function<void()> join) : work_(work), join_(std::move(join)), stream_(work.device()) {}
  ~LibrarySums() override { abort(); }

  std::string library() const override {
    int version = 0;
    require(ncclGetVersion(&version), "its version");
    return std::string(kLibrary) + " " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  }

  Id make_id() override {
    ncclUniqueId made;
    stream_.use();
    require(ncclGetUniqueId(&made), "an id");
    static_assert(sizeof made == std::tuple_size_v<Id>);
    Id id;
    std::memcpy(id.data(), &made, sizeof made);
    return id;
  }

  void begin_connecting(const Id& id, int seats, int seat) override {
    ncclUniqueId made;
    std::memcpy(&made, id.data(), sizeof made);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    stream_.use();
    begun(ncclCommInitRankConfig(&group_, seats, made, seat, &config), "connecting");
  }

  // The library's state is asked to the end, for what becomes of a call that the stream has already.
  bool is_done() override {
    ncclResult_t state = ncclSuccess;
    require(ncclCommGetAsyncError(group_, &state), entered_);
    if (state == ncclInProgress) return false;
    require(state, entered_);
    if (std::exchange(is_entering_, false)) at_the_end_.emplace(stream_);
    if (at_the_end_ && !at_the_end_->is_over()) return false;
    at_the_end_.reset();
    return true;
  }

  Moment queued() override {
    join_();
    Event now(work_);
    const std::lock_guard lock(moments_mutex_);
    moments_.emplace(++last_moment_, std::move(now));
    return last_moment_;
  }

  void begin_sum(void* sum, const void* mine, size_t count, Element element, To to, Moment after) override {
    hold_up(after);
    const auto type = element == Element::kInt32 ? ncclInt32 : ncclFloat32;
    stream_.use();
    if (to == To::kAllSeats) {
      begun(ncclAllReduce(mine, sum, count, type, ncclSum, group_, stream_.get()), "an all-reduce");
    } else {
      begun(ncclReduce(mine, sum, count, type, ncclSum, 0, group_, stream_.get()), "a reduce");
    }
  }
  void begin_broadcast(void* memory, size_t bytes) override {
    stream_.use();
    begun(ncclBroadcast(memory, memory, bytes, ncclUint8, 0, group_, stream_.get()), "a broadcast");
  }

  void begin_copy_to_host(void* staging_to, const void* from, size_t bytes) override {
    stream_.copy_to_host(staging_to, from, bytes);
    at_the_end_.emplace(stream_);
  }
  void begin_copy_to_device(void* to, const void* staging_from, size_t bytes) override {
    stream_.copy_to_device(to, staging_from, bytes);
    at_the_end_.emplace(stream_);
  }

  void abort() noexcept override {
    try {
      stream_.use();
      if (group_ != nullptr) (void)ncclCommAbort(group_);
      group_ = nullptr;
      is_entering_ = false;
      stream_.wait();
    } catch (...) {  // of a device that failed there is nothing to be waited for
    }
  }

 private:
  static std::string words(const char* what, ncclResult_t result) {
    return std::string(kLibrary) + ": " + what + ": " + ncclGetErrorString(result);
  }
  static void require(ncclResult_t result, const char* what) {
    if (result == ncclSuccess) return;
    if (result == ncclUnhandledCudaError) throw DeviceError("hip: " + words(what, result));
    throw std::runtime_error(words(what, result));
  }
  void begun(ncclResult_t result, const char* what) {
    if (result != ncclInProgress) require(result, what);
    is_entering_ = true;
    entered_ = what;
  }

  // Moments of the one queue: the stream waits for this one, and all before it are past then.
  void hold_up(Moment after) {
    std::map<Moment, Event> past;
    const std::lock_guard lock(moments_mutex_);
    while (!moments_.empty() && moments_.begin()->first <= after) past.insert(moments_.extract(moments_.begin()));
    if (!past.empty()) past.rbegin()->second.hold_up(stream_);
  }

  const Stream& work_;
  std::function<void()> join_;
  Stream stream_;
  ncclComm_t group_ = nullptr;
  bool is_entering_ = false;
  const char* entered_ = "";
  std::optional<Event> at_the_end_;  // of what the stream was given
  std::mutex moments_mutex_;
  std::map<Moment, Event> moments_;
  Moment last_moment_ = 0;
};

}  // namespace

std::unique_ptr<DeviceSums> make_library_sums(const Stream& work, std::function<void()> join) {
  return std::make_unique<LibrarySums>(work, std::move(join));
}

}  // namespace holdfast::kernels::hip
