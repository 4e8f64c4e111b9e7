// Ranks as threads over loopback, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "worker/collectives/communicator.h"
#include "worker/transport/transport.h"

namespace holdfast::worker {

inline std::unique_ptr<Transport> loopback_transport() {
  auto transport = make_tcp_transport_at("127.0.0.1:0");
  if (!transport) throw std::runtime_error(transport.error().detail);
  return std::move(*transport);
}

// In place, as most tests want it.
template <typename T>
CollectiveResult<void> sum_in_place(Communicator& ring, std::vector<T>& buffer) {
  const std::vector<T> mine = buffer;
  return ring.all_reduce_sum(std::span<const T>(mine), std::span<T>(buffer));
}

// One transport a rank; a ring can be formed over them again and again.
class RingOfThreads {
 public:
  explicit RingOfThreads(int world_size) {
    for (int rank = 0; rank < world_size; ++rank) {
      transports_.push_back(loopback_transport());
      options_.addresses.push_back(transports_.back()->address());
    }
    options_.job = "job";
    options_.generation = 1;
    options_.secret = "5ec2e7";
    options_.encrypted = std::getenv("HOLDFAST_TEST_ENCRYPTED") != nullptr;  // all tests of rings can be run so, too
  }

  RingOptions& options() { return options_; }  // of all ranks, but for the rank
  RingOptions options_of(int rank) const {
    RingOptions options = options_;
    options.rank = rank;
    return options;
  }
  int world_size() const { return static_cast<int>(transports_.size()); }
  Transport& transport(int rank) { return *transports_[static_cast<size_t>(rank)]; }

  // Runs `body` on a thread for each rank.
  void each_rank(const std::function<void(int rank)>& body) const {
    std::vector<std::jthread> threads;
    threads.reserve(transports_.size());
    for (int rank = 0; rank < world_size(); ++rank) threads.emplace_back(body, rank);
  }

  // Forms a ring and runs `body` on each rank with its communicator, which lives until all of them are through.
  void run(const std::function<void(Communicator& ring)>& body) {
    std::vector<std::unique_ptr<Communicator>> rings(transports_.size());
    each_rank([&](int rank) {
      auto formed = Communicator::form(transport(rank), options_of(rank));
      ASSERT_TRUE(formed) << "rank " << rank << ": " << formed.error().detail;
      rings[static_cast<size_t>(rank)] = std::move(*formed);
      body(*rings[static_cast<size_t>(rank)]);
    });
  }

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
  RingOptions options_;
};

}  // namespace holdfast::worker
