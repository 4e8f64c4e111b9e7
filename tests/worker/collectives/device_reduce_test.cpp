// Ranks whose devices sum among themselves: a played library, whose devices' memory is the host's.
#include "worker/collectives/node/device_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <latch>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "kernels/ops.h"
#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

using kernels::DeviceSums;
using std::chrono::milliseconds;
using testing::HasSubstr;

// All played devices of a test, and what is to go wrong with them.
struct Played {
  std::mutex mutex;
  std::map<DeviceSums::Id, std::set<int>> connected;
  struct Operation {
    std::map<int, std::vector<std::byte>> brought;  // by seat
    std::vector<std::byte> result;
  };
  std::map<std::pair<DeviceSums::Id, int>, Operation> operations;
  uint64_t ids = 0;
  int sums = 0, broadcasts = 0;
  bool refuses = false;
  int stops_at = -1;  // the operation that never ends
  int breaks_at = -1;
};

class PlayedSums final : public DeviceSums {
 public:
  explicit PlayedSums(Played& all) : all_(all) {}
  std::string library() const override { return "played 1.0"; }
  Id make_id() override {
    const std::lock_guard lock(all_.mutex);
    Id id{};
    std::memcpy(id.data(), &++all_.ids, sizeof all_.ids);
    return id;
  }
  void begin_connecting(const Id& id, int seats, int seat) override {
    const std::lock_guard lock(all_.mutex);
    if (all_.refuses && seat == 1) throw std::runtime_error("played: the driver is asleep");
    id_ = id;
    seats_ = seats;
    seat_ = seat;
    all_.connected[id].insert(seat);
    goes_on_ = [this] { return all_.connected[id_].size() == static_cast<size_t>(seats_); };
  }
  bool is_done() override {
    const std::lock_guard lock(all_.mutex);
    if (goes_on_ && !goes_on_()) return false;
    goes_on_ = nullptr;
    return true;
  }
  Moment queued() override { return ++moment_; }

  void begin_sum(void* sum, const void* mine, size_t count, Element element, To to, Moment after) override {
    EXPECT_GT(after, 0U);
    const bool takes = to == To::kAllSeats || seat_ == 0;
    begin(mine, count * 4, [=, this](Played::Operation& operation) {
      if (operation.result.empty()) {
        ++all_.sums;
        operation.result.assign(count * 4, std::byte{0});
        for (const auto& [_, brought] : operation.brought) add(operation.result, brought.data(), element);
      }
      if (takes) std::memcpy(sum, operation.result.data(), count * 4);
    });
  }
  void begin_broadcast(void* memory, size_t bytes) override {
    begin(memory, bytes, [=, this](Played::Operation& operation) {
      if (seat_ == 0) ++all_.broadcasts;
      if (seat_ != 0) std::memcpy(memory, operation.brought.at(0).data(), bytes);
    });
  }
  void begin_copy_to_host(void* staging_to, const void* from, size_t bytes) override { std::memcpy(staging_to, from, bytes); }
  void begin_copy_to_device(void* to, const void* staging_from, size_t bytes) override { std::memcpy(to, staging_from, bytes); }
  void abort() noexcept override { goes_on_ = nullptr; }

 private:
  static void add(std::vector<std::byte>& sum, const std::byte* more, Element element) {
    for (size_t at = 0; at < sum.size(); at += 4) {
      if (element == Element::kInt32) {
        add_one<uint32_t>(sum.data() + at, more + at);
      } else {
        add_one<float>(sum.data() + at, more + at);
      }
    }
  }
  template <typename T>
  static void add_one(std::byte* sum, const std::byte* more) {
    T a, b;
    std::memcpy(&a, sum, sizeof a);
    std::memcpy(&b, more, sizeof b);
    a += b;
    std::memcpy(sum, &a, sizeof a);
  }
  void begin(const void* memory, size_t bytes, std::function<void(Played::Operation&)> finish) {
    const std::lock_guard lock(all_.mutex);
    const int number = operations_++;
    if (all_.breaks_at >= 0 && number >= all_.breaks_at) throw std::runtime_error("played: the link fell off");
    all_.operations[{id_, number}].brought[seat_].assign(static_cast<const std::byte*>(memory),
                                                         static_cast<const std::byte*>(memory) + bytes);
    goes_on_ = [=, this] {
      auto& operation = all_.operations[{id_, number}];
      if (number == all_.stops_at || operation.brought.size() < static_cast<size_t>(seats_)) return false;
      for (const auto& [seat, brought] : operation.brought) EXPECT_EQ(brought.size(), bytes) << "of seat " << seat;
      finish(operation);
      return true;
    };
  }

  Played& all_;
  Id id_{};
  int seats_ = 0, seat_ = 0, operations_ = 0;
  std::function<bool()> goes_on_;
  std::atomic<Moment> moment_ = 0;
};

struct Connections {
  std::atomic<int> connected{0}, refused{0};
  std::mutex mutex;
  std::vector<std::string> whys;
};

class Devices : public testing::Test {
 protected:
  // Ranks by node; a node's name in capitals has no devices.
  void run(const std::vector<std::string>& nodes, const std::function<void(Communicator& ring)>& body) {
    RingOfThreads ring(static_cast<int>(nodes.size()));
    ring.options().chunk_bytes = 4096;
    std::latch all_there(static_cast<int>(nodes.size()));
    std::vector<std::unique_ptr<Communicator>> rings(nodes.size());
    ring.each_rank([&](int rank) {
      auto formed = Communicator::form(ring.transport(rank), ring.options_of(rank));
      ASSERT_TRUE(formed) << formed.error().detail;
      const std::string& node = nodes[static_cast<size_t>(rank)];
      OwnDevices own{.sums = node < "a" ? nullptr : std::make_unique<PlayedSums>(played),
                     .on_connected = [this](const std::string& library, const std::string& why_not) {
                       const std::lock_guard lock(connections.mutex);
                       ++(why_not.empty() ? connections.connected : connections.refused);
                       if (!why_not.empty()) connections.whys.push_back(why_not);
                       EXPECT_EQ(library, why_not.empty() ? "played 1.0" : "");
                     }};
      ASSERT_TRUE((*formed)->share_memory(node, std::move(own)));
      rings[static_cast<size_t>(rank)] = std::move(*formed);
      all_there.arrive_and_wait();
      body(*rings[static_cast<size_t>(rank)]);
    });
  }
  // One all-reduce, in the way that the ring is for.
  CollectiveResult<void> reduce(Communicator& ring, std::vector<int32_t>& numbers) {
    const std::vector<int32_t> mine = numbers;
    if (!ring.sums_on_devices()) return ring.all_reduce_sum(std::span<const int32_t>(mine), std::span<int32_t>(numbers));
    std::vector<std::byte> on_host(numbers.size() * 4), total(numbers.size() * 4);
    return ring.all_reduce_sum(DeviceMemory{.mine = mine.data(),
                                            .sum = numbers.data(),
                                            .on_host = on_host.data(),
                                            .total_on_host = total.data(),
                                            .count = numbers.size(),
                                            .element = DeviceSums::Element::kInt32,
                                            .after = ring.queued_on_device()});
  }
  void expect_sums(Communicator& ring, size_t count) {
    std::vector<int32_t> numbers(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<int32_t>(i) * (ring.rank() + 1);
    const auto done = reduce(ring, numbers);
    ASSERT_TRUE(done) << done.error().detail;
    const int32_t factor = ring.world_size() * (ring.world_size() + 1) / 2;
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(numbers[i], static_cast<int32_t>(i) * factor) << i << " of " << count;
  }
  // Until all ranks say that something has come about, sums through whatever there is.
  void sum_until(Communicator& ring, const std::function<bool()>& here) {
    for (int call = 0; call < 5000; ++call) {
      expect_sums(ring, 10);
      const std::byte word{here() ? std::byte{1} : std::byte{0}};
      const auto words = ring.all_gather({&word, 1});
      ASSERT_TRUE(words);
      if (std::ranges::all_of(*words, [](const auto& theirs) { return theirs[0] == std::byte{1}; })) return;
      std::this_thread::sleep_for(milliseconds(1));
    }
    FAIL() << "it has not come about";
  }
  void go_over(Communicator& ring) {
    sum_until(ring, [&] { return ring.sums_on_devices(); });
  }

  Played played;
  Connections connections;
};

const std::vector<std::vector<std::string>> kNodes{
    {"a", "a"}, {"a", "a", "a"}, {"a", "a", "b", "b"}, {"a", "b", "a", "b", "b"}};

TEST_F(Devices, SumAmongThemselvesOnceTheyAreConnectedAndThroughTheHostBefore) {
  for (const auto& nodes : kNodes) {
    played.sums = played.broadcasts = 0;
    run(nodes, [&](Communicator& ring) {
      go_over(ring);
      for (const size_t count : {0UL, 1UL, 4096UL, 40000UL, 100003UL, 7UL}) expect_sums(ring, count);
      EXPECT_TRUE(ring.all_gather({}));
    });
    EXPECT_GT(played.sums, 0);
    EXPECT_EQ(played.broadcasts > 0, nodes.size() > 3) << "of sums over all nodes";
  }
  EXPECT_EQ(connections.refused, 0);
}

// The devices of one node, and the memory of another.
TEST_F(Devices, SumWithNodesThatHaveNone) {
  run({"a", "a", "B", "B", "c"}, [&](Communicator& ring) {
    const bool has = ring.rank() < 2;
    sum_until(ring, [&] { return ring.sums_on_devices() == has; });
    EXPECT_EQ(ring.sums_on_devices(), has);
    for (const size_t count : {1UL, 40000UL, 0UL}) expect_sums(ring, count);
  });
}

TEST_F(Devices, ThatCannotConnectLeaveItToTheHost) {
  played.refuses = true;
  run({"a", "a", "a"}, [&](Communicator& ring) {
    sum_until(ring, [&] { return connections.refused == 1; });
    EXPECT_FALSE(ring.sums_on_devices());
    expect_sums(ring, 1000);
  });
  EXPECT_THAT(connections.whys, testing::ElementsAre("played: the driver is asleep")) << "the rank that knows says so";
  EXPECT_EQ(played.sums, 0);
}

TEST_F(Devices, WhoseLibraryFailsEndTheCallOnAllRanks) {
  std::latch over(4), failed(4);
  run({"a", "a", "b", "b"}, [&](Communicator& ring) {
    go_over(ring);
    over.arrive_and_wait();  // one node may have gone over, and summed, long before the other
    {
      const std::lock_guard lock(played.mutex);
      played.breaks_at = 0;
    }
    CollectiveResult<void> done;
    for (int call = 0; call < 10 && done; ++call) {
      std::vector<int32_t> numbers(100, 1);
      done = reduce(ring, numbers);
    }
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CollectiveError::Kind::kConnectionLost) << done.error().detail;
    failed.arrive_and_wait();
  });
}

TEST_F(Devices, ThatComeToNoEndAreGivenUpAfterTheTimeout) {
  std::latch failed(2);
  played.stops_at = 1;
  run({"a", "a"}, [&](Communicator& ring) {
    go_over(ring);
    ring.set_patience(milliseconds(300), std::chrono::seconds(30), {});
    CollectiveResult<void> done;
    for (int call = 0; call < 3 && done; ++call) {
      std::vector<int32_t> numbers(100, 1);
      done = reduce(ring, numbers);
    }
    ASSERT_FALSE(done);
    EXPECT_TRUE(done.error().kind == CollectiveError::Kind::kTimeout ||
                done.error().kind == CollectiveError::Kind::kConnectionLost);
    failed.arrive_and_wait();
  });
}

// A device that waits for another can do nothing else: it is not begun until all are there.
TEST_F(Devices, AreNotBegunForARankThatDoesNotCome) {
  std::promise<void> over;
  const auto until_over = over.get_future().share();
  run({"a", "a"}, [&](Communicator& ring) {
    go_over(ring);
    const int before = played.sums;
    if (ring.rank() == 1) return until_over.wait();
    ring.set_patience(milliseconds(300), std::chrono::seconds(30), {});
    std::vector<int32_t> numbers(100, 1);
    const auto lost = reduce(ring, numbers);
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().suspect_rank, 1);
    EXPECT_THAT(lost.error().detail, HasSubstr("rank 1, on this node, has not come to bring its part of an all-reduce"));
    EXPECT_EQ(played.sums, before);
    over.set_value();
  });
}

TEST_F(Devices, AreAbortedWithTheCall) {
  played.stops_at = 2;
  run({"a", "a"}, [&](Communicator& ring) {
    go_over(ring);
    std::jthread breaker([&] {
      std::this_thread::sleep_for(milliseconds(100));
      ring.abort("the test wants it");
    });
    const auto begun = std::chrono::steady_clock::now();
    CollectiveResult<void> done;
    for (int call = 0; call < 10 && done; ++call) {
      std::vector<int32_t> numbers(100, 1);
      done = reduce(ring, numbers);
    }
    ASSERT_FALSE(done);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
  });
}

}  // namespace
}  // namespace holdfast::worker
