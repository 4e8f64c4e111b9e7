// Runs the simulator over many seeds: `sim_test [--seed N] [--count N] [--trace]`. Each seed is also one of services that share
// a database; with --leadership it is that alone.
//
// Prints one line for all that went well. At the first broken rule: the rule, the seed, and the command that shows how it
// came about; the exit status is 1, and so it is when the service ends by a broken invariant. An exception that is no broken
// rule: the same with status 3.
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "tests/sim/leadership/leadership_world.h"
#include "tests/sim/violation.h"
#include "tests/sim/world.h"

namespace {

struct Arguments {
  uint64_t seed = 1, count = 1;
  bool trace = false, leadership = false;
};

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--trace") {
      arguments.trace = true;
    } else if (word == "--leadership") {
      arguments.leadership = true;
    } else if ((word == "--seed" || word == "--count") && i + 1 < argc) {
      (word == "--seed" ? arguments.seed : arguments.count) = std::strtoull(argv[++i], nullptr, 10);
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

int tell_end(const char* program, uint64_t seed, const std::string& what, int status) {
  fmt::print("seed {}: {}\nto see how it comes about: {} --seed {} --trace\n", seed, what, program, seed);
  return status;
}

// The seed under way, for the end by a broken invariant, which is a broken rule, too: its line is on stderr.
uint64_t seed_under_way = 0;
const char* program_name = "";
void on_abort(int) {
  tell_end(program_name, seed_under_way, "a broken invariant", 1);
  std::fflush(stdout);
  std::_Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace holdfast::sim;
  const auto arguments = parse(argc, argv);
  if (!arguments) {
    fmt::print(stderr, "usage: {} [--seed N] [--count N] [--trace] [--leadership]\n", argv[0]);
    return 2;
  }
  spdlog::set_level(spdlog::level::off);  // --trace tells what the service says, in the order of all the rest
  program_name = argv[0];
  std::signal(SIGABRT, on_abort);
  Tally all;
  LeadershipTally led;
  for (uint64_t seed = arguments->seed; seed < arguments->seed + arguments->count; ++seed) {
    seed_under_way = seed;
    try {
      const LeadershipTally here = LeadershipWorld(seed).run();
      led.commits += here.commits;
      led.terms += here.terms;
      led.faults += here.faults;
      if (arguments->leadership) continue;
      const Tally one = World(seed, arguments->trace).run();
      all.events += one.events;
      all.faults += one.faults;
      all.generations += one.generations;
      all.voided += one.voided;
      all.simulated_ms += one.simulated_ms;
      all.preemptions += one.preemptions;
    } catch (const Violation& violation) {
      return tell_end(argv[0], seed, violation.what(), 1);
    } catch (const std::exception& error) {
      return tell_end(argv[0], seed, fmt::format("an exception: {}", error.what()), 3);
    }
  }
  fmt::print("{} runs of services that share a database kept every rule: {} faults, {} commits in {} terms\n", arguments->count,
             led.faults, led.commits, led.terms);
  if (arguments->leadership) return 0;
  fmt::print(
      "{} runs kept every rule: {} faults, {} generations, {} preemptions, {} times back to an older state, {} events in {} "
      "simulated hours\n",
      arguments->count, all.faults, all.generations, all.preemptions, all.voided, all.events, all.simulated_ms / 3'600'000);
  return 0;
}
