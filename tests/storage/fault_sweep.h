// Runs an action on a store over the faulty file system again and again: each of its operations fails once in each way, and at
// each of them the power is lost once. Two checks say what must hold after each outcome.
#pragma once

#include <functional>
#include <memory>

#include "tests/storage/checks.h"
#include "tests/storage/faulty_file_system.h"

namespace holdfast::storage::testing {

inline constexpr uint32_t kPowerLosses = 12;  // ways to lose power; 0 and 1 are the extremes
inline constexpr WriteOptions kSmallShards{.shard_bytes = 4000};

struct Machine {
  std::shared_ptr<FaultyFileSystem> files;
  std::unique_ptr<ObjectStore> store;  // at /checkpoints/j1
};
Machine boot(const Disk& disk, const Fault& fault = {});
Disk after_power_loss(const Machine& machine, uint32_t seed);

// The state in the checkpoints that exist before an action, and the state in those that it writes.
const State& old_state();
const State& new_state();
// A disk with checkpoints of old_state() at `steps`, all of them durable.
Disk disk_with(std::initializer_list<int64_t> steps);
Result<void> write_new(ObjectStore& store, int64_t step);

struct Scenario {
  Disk before;
  std::function<Result<void>(ObjectStore&)> action;
  std::function<void(ObjectStore&)> whole;     // holds after any outcome, power loss included
  std::function<void(ObjectStore&)> complete;  // holds after success, power loss included
};
void sweep(const Scenario& scenario);

}  // namespace holdfast::storage::testing
