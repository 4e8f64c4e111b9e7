// `holdfast submit --launch slurm|ssh`: workers for one job, started where Slurm or a list of hosts says, and gone when the job
// is over.
//
// Promises: the workers work for the job alone and leave when it has ended, whatever its end was and whether this program lives
// or not (holdfast-worker --job): nobody need take them down. No secret is in a command line. Refuses, before anything is
// submitted: hosts that are too few, an address of the service that is this machine's alone.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

struct LaunchFlags {
  std::string how;  // "slurm", "ssh"; "": nothing is launched
  std::string hosts, host_file;
  std::string options, worker_options, worker_program = "holdfast-worker";
  int64_t workers_per_node = 1;

  // The object outlives the parsing. Returns --launch.
  CLI::Option* add_to(CLI::App& command);
  bool wanted() const { return !how.empty(); }
};

// Thread: one.
class Launch {
 public:
  virtual ~Launch() = default;
  // `job` as the service shows it. Throws a Failure where no worker could be started.
  virtual void start(const Json& job) = 0;
  // Sentences for people, of what happened since the last call.
  virtual std::vector<std::string> take_notes() = 0;
  // For a program that ends before the job, on any thread: what goes on without it.
  virtual std::string leave() = 0;
  // Why it is in vain to wait; "" where it is not.
  virtual std::string hopeless() const = 0;
  // After the job's end; the notes tell what is left, if anything is.
  virtual void end() = 0;
  // Whether somebody must stay, to look after the workers.
  virtual bool needs_company() const = 0;
};

// How many workers the job is to have, where its spec does not say: as many as the hosts take; 0: it is not known.
int64_t workers_of(const LaunchFlags& flags);
// Checks all that can be checked before the job is submitted, and gets the workers' token.
std::unique_ptr<Launch> prepare_launch(const Options& options, const LaunchFlags& flags, int64_t workers);

}  // namespace holdfast::ops
