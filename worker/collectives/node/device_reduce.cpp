#include "worker/collectives/node/device_reduce.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "kernels/ops.h"
#include "worker/collectives/node/giving_up.h"
#include "worker/drills/fault_points.h"
#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLooksEvery{2};
constexpr milliseconds kConnectsWithin{60000};  // many GPUs take seconds, and nothing waits for it

constexpr size_t kElementBytes = 4;  // of either element

}  // namespace

DeviceReduce::DeviceReduce(Seats& seats, OwnDevices own, size_t piece_bytes, bool carried)
    : seats_(seats),
      sums_(std::move(own.sums)),
      on_connected_(std::move(own.on_connected)),
      piece_bytes_(piece_bytes),
      carried_(carried) {
  if (sums_ && seats_.count() > 1) {
    connecting_ = std::jthread([this](const std::stop_token& stop) { connect(stop); });
  } else {
    seats_.set_devices(Seats::Devices::kNot);
  }
}

void DeviceReduce::connect(const std::stop_token& stop) {
  name_thread("devices");
  Outcome outcome;
  try {
    outcome = try_to_connect(stop);
  } catch (const std::exception& error) {
    if (seats_.devices() != Seats::Devices::kNot) outcome.why_not = error.what();
  }
  if (!outcome.connected) sums_->abort();
  seats_.set_devices(outcome.connected ? Seats::Devices::kConnected : Seats::Devices::kNot);
  if (on_connected_ && (outcome.connected || !outcome.why_not.empty()))
    on_connected_(outcome.connected ? sums_->library() : "", outcome.why_not);
}

DeviceReduce::Outcome DeviceReduce::try_to_connect(const std::stop_token& stop) {
  const auto deadline = steady_clock::now() + kConnectsWithin;
  const auto wait_for = [&](const auto& there) {
    while (!there()) {
      if (stop.stop_requested() || seats_.devices() == Seats::Devices::kNot) return false;
      if (steady_clock::now() > deadline) {
        throw std::runtime_error(sums_->library() + ": no connection within " + std::to_string(kConnectsWithin.count() / 1000) +
                                 " s");
      }
      std::this_thread::sleep_for(kLooksEvery);
    }
    return true;
  };
  if (seats_.own() == 0) seats_.publish_device_id(sums_->make_id());
  if (!wait_for([&] { return seats_.device_id().has_value(); })) return {};
  sums_->begin_connecting(*seats_.device_id(), static_cast<int>(seats_.count()), static_cast<int>(seats_.own()));
  return {.connected = wait_for([&] { return sums_->is_done(); }), .why_not = ""};
}

CollectiveResult<void> DeviceReduce::run(const DeviceMemory& memory, const Carry& carry) {
  auto done = giving_up_in(seats_, [&]() -> CollectiveResult<void> {
    try {
      return sum(memory, carry);
    } catch (const kernels::DeviceFailure&) {
      throw;
    } catch (const std::runtime_error& error) {  // the library's: the other seats' devices may be gone
      return tl::make_unexpected(CollectiveError{CollectiveError::Kind::kConnectionLost, -1, error.what(), false});
    }
  });
  if (!done) sums_->abort();
  return done;
}

// All seats come to the call before any device begins it: a device that waits for another cannot do anything else meanwhile,
// and a seat that is late, or gone, is known by name.
CollectiveResult<void> DeviceReduce::sum(const DeviceMemory& memory, const Carry& carry) {
  using To = kernels::DeviceSums::To;
  const Element element = memory.element == kernels::DeviceSums::Element::kInt32 ? Element::kInt32 : Element::kFloat;
  const auto piece = seats_.begin_call(memory.count * kElementBytes, element, 1);
  if (!piece) return tl::make_unexpected(piece.error());
  seats_.set_filled(*piece + 1);
  if (auto waited = seats_.await_filled(*piece + 1); !waited) return waited;
  if (auto same = seats_.require_same_call(); !same) return same;
  fault_point_within("reduce_scatter");
  if (memory.count > 0) {
    sums_->begin_sum(memory.sum, memory.mine, memory.count, memory.element, carried_ ? To::kFirstSeat : To::kAllSeats,
                     memory.after);
    if (auto waited = await_device("add up"); !waited) return waited;
  }
  if (carried_) {
    if (auto carried = carry_on(memory, carry, *piece); !carried) return carried;
  }
  seats_.set_added(*piece + 1);
  fault_point_within("all_gather");
  return {};
}

CollectiveResult<void> DeviceReduce::carry_on(const DeviceMemory& memory, const Carry& carry, uint64_t piece) {
  const size_t bytes = memory.count * kElementBytes;
  if (seats_.own() == 0) {
    if (bytes > 0) {
      sums_->begin_copy_to_host(memory.on_host, memory.sum, bytes);
      if (auto waited = await_device("bring"); !waited) return waited;
    }
    for (size_t at = 0; at < std::max<size_t>(bytes, 1); at += piece_bytes_) {
      const size_t length = std::min(piece_bytes_, bytes - at);
      if (auto done = carry({memory.on_host + at, length}, {memory.total_on_host + at, length}); !done) return done;
    }
    if (bytes > 0) {
      sums_->begin_copy_to_device(memory.sum, memory.total_on_host, bytes);
      if (auto waited = await_device("take"); !waited) return waited;
    }
    seats_.set_carried(piece + 1);
  } else if (auto waited = seats_.await_carried(piece + 1); !waited) {
    return waited;
  }
  if (bytes == 0) return {};
  sums_->begin_broadcast(memory.sum, bytes);
  return await_device("take");
}

CollectiveResult<void> DeviceReduce::await_device(const char* what) {
  return seats_.await_done([&] { return sums_->is_done(); }, what);
}

}  // namespace holdfast::worker
