#include "tests/storage/fault_sweep.h"

#include <cerrno>
#include <system_error>
#include <utility>

namespace holdfast::storage::testing {
namespace {

constexpr std::pair<Fault::Kind, const char*> kFailures[] = {
    {Fault::Kind::kOnce, "once"},
    {Fault::Kind::kOnceDoneAnyway, "once, though it is done"},
    {Fault::Kind::kFromThen, "and all after it"},
};

int64_t operations_of(const Scenario& scenario) {
  Machine machine = boot(scenario.before);
  const int64_t booted = machine.files->operations();
  EXPECT_TRUE(ok(scenario.action(*machine.store)));
  EXPECT_EQ(booted, 0) << "opening a store that is there changes nothing";
  return machine.files->operations();
}

// Checks that a failure is an error value which names the file and the system's error.
void expect_named(const Error& error, int number) {
  EXPECT_EQ(error.code, number == ENOSPC ? Error::Code::kNoSpace : Error::Code::kUnavailable);
  EXPECT_NE(error.message.find("/checkpoints"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find(std::generic_category().message(number)), std::string::npos) << error.message;
}

void fail_at(const Scenario& scenario, const Fault& fault) {
  Machine machine = boot(scenario.before, fault);
  const Result<void> done = scenario.action(*machine.store);
  ASSERT_FALSE(done) << "the failure was swallowed";
  expect_named(done.error(), fault.error);
  machine.files->heal();
  scenario.whole(*machine.store);
  for (uint32_t seed = 0; seed < kPowerLosses; ++seed) scenario.whole(*boot(after_power_loss(machine, seed)).store);
  ASSERT_TRUE(ok(scenario.action(*machine.store))) << "it is tried again";
  scenario.complete(*boot(after_power_loss(machine, 0)).store);
}

void sweep_failures(const Scenario& scenario) {
  const int64_t operations = operations_of(scenario);
  ASSERT_GT(operations, 5);
  for (const auto& [kind, how] : kFailures) {
    for (int64_t n = 0; n < operations; ++n) {
      // ENOSPC (a full volume) and EIO (a bad one) alternate over the operations, and begin differently for each way to fail.
      const int error = (n + (kind == Fault::Kind::kFromThen ? 1 : 0)) % 2 == 0 ? EIO : ENOSPC;
      SCOPED_TRACE("operation " + std::to_string(n) + " of " + std::to_string(operations) + " fails " + how + ", " +
                   std::generic_category().message(error));
      fail_at(scenario, {kind, n, error});
    }
  }
}

void lose_power_at(const Scenario& scenario, int64_t n, bool is_over, uint32_t seed) {
  Machine machine = boot(scenario.before, {Fault::Kind::kPowerOff, n, 0});
  const Result<void> done = scenario.action(*machine.store);
  ASSERT_EQ(done.has_value(), is_over);
  Machine again = boot(after_power_loss(machine, seed));
  scenario.whole(*again.store);
  if (done) scenario.complete(*again.store);
  ASSERT_TRUE(ok(scenario.action(*again.store)));
  scenario.complete(*boot(after_power_loss(again, 0)).store);
}

void sweep_power_losses(const Scenario& scenario) {
  const int64_t operations = operations_of(scenario);
  for (int64_t n = 0; n <= operations; ++n) {
    for (uint32_t seed = 0; seed < kPowerLosses; ++seed) {
      SCOPED_TRACE("power goes at operation " + std::to_string(n) + " of " + std::to_string(operations) + ", seed " +
                   std::to_string(seed));
      lose_power_at(scenario, n, n == operations, seed);
    }
  }
}

}  // namespace

Machine boot(const Disk& disk, const Fault& fault) {
  Machine machine{std::make_shared<FaultyFileSystem>(disk, fault), nullptr};
  auto store = open_directory_store("/checkpoints/j1", MissingFolder::kMake, machine.files);
  EXPECT_TRUE(ok(store));
  machine.store = std::move(*store);
  return machine;
}

Disk after_power_loss(const Machine& machine, uint32_t seed) {
  Disk disk = machine.files->disk();
  disk.lose_power(seed);
  return disk;
}

const State& old_state() {
  static const State state(1);
  return state;
}

const State& new_state() {
  static const State state(2);
  return state;
}

Disk disk_with(std::initializer_list<int64_t> steps) {
  Machine machine = boot({});
  for (const int64_t step : steps) {
    EXPECT_TRUE(ok(write_checkpoint(*machine.store, manifest_at(step), old_state().tensors(), kSmallShards)));
  }
  return machine.files->disk();
}

Result<void> write_new(ObjectStore& store, int64_t step) {
  const auto written = write_checkpoint(store, manifest_at(step, 2), new_state().tensors(), kSmallShards);
  if (!written) return tl::unexpected(written.error());
  return {};
}

void sweep(const Scenario& scenario) {
  sweep_failures(scenario);
  sweep_power_losses(scenario);
}

}  // namespace holdfast::storage::testing
