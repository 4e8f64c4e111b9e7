// Runs the simulator over many seeds: `sim_test [--seed N] [--count N] [--trace]`. Each seed is also one of services that share
// a database, and one of a job that serves; with --leadership or --texts it is that alone.
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
#include "tests/sim/texts/texts_world.h"
#include "tests/sim/violation.h"
#include "tests/sim/world.h"

namespace {

using namespace holdfast::sim;

struct Arguments {
  uint64_t seed = 1, count = 1;
  bool trace = false, leadership = true, texts = true, training = true;
};

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--trace") {
      arguments.trace = true;
    } else if (word == "--leadership") {
      arguments.texts = arguments.training = false;
    } else if (word == "--texts") {
      arguments.leadership = arguments.training = false;
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

struct Tallies {
  Tally training;
  LeadershipTally leadership;
  TextsTally texts;
};

void run(uint64_t seed, const Arguments& arguments, Tallies& all) {
  if (arguments.leadership) {
    const LeadershipTally one = LeadershipWorld(seed).run();
    all.leadership.commits += one.commits;
    all.leadership.terms += one.terms;
    all.leadership.faults += one.faults;
  }
  if (arguments.texts) {
    const TextsTally one = TextsWorld(seed).run();
    all.texts.texts += one.texts;
    all.texts.moved += one.moved;
    all.texts.faults += one.faults;
  }
  if (arguments.training) {
    const Tally one = World(seed, arguments.trace).run();
    all.training.events += one.events;
    all.training.faults += one.faults;
    all.training.generations += one.generations;
    all.training.voided += one.voided;
    all.training.simulated_ms += one.simulated_ms;
    all.training.preemptions += one.preemptions;
  }
}

void tell(const Arguments& arguments, const Tallies& all) {
  if (arguments.leadership) {
    fmt::print("{} runs of services that share a database kept every rule: {} faults, {} commits in {} terms\n",
               arguments.count, all.leadership.faults, all.leadership.commits, all.leadership.terms);
  }
  if (arguments.texts) {
    fmt::print("{} runs of a job that serves kept every rule: {} faults, {} texts, {} times with another replica\n",
               arguments.count, all.texts.faults, all.texts.texts, all.texts.moved);
  }
  if (arguments.training) {
    fmt::print(
        "{} runs kept every rule: {} faults, {} generations, {} preemptions, {} times back to an older state, {} events in {} "
        "simulated hours\n",
        arguments.count, all.training.faults, all.training.generations, all.training.preemptions, all.training.voided,
        all.training.events, all.training.simulated_ms / 3'600'000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  if (!arguments) {
    fmt::print(stderr, "usage: {} [--seed N] [--count N] [--trace] [--leadership|--texts]\n", argv[0]);
    return 2;
  }
  spdlog::set_level(spdlog::level::off);  // --trace tells what the service says, in the order of all the rest
  program_name = argv[0];
  std::signal(SIGABRT, on_abort);
  Tallies all;
  for (uint64_t seed = arguments->seed; seed < arguments->seed + arguments->count; ++seed) {
    seed_under_way = seed;
    try {
      run(seed, *arguments, all);
    } catch (const Violation& violation) {
      return tell_end(argv[0], seed, violation.what(), 1);
    } catch (const std::exception& error) {
      return tell_end(argv[0], seed, fmt::format("an exception: {}", error.what()), 3);
    }
  }
  tell(*arguments, all);
  return 0;
}
