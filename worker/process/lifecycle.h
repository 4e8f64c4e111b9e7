// The state of a worker and its next actions: the pure machine between the service's directives and the train thread.
//
// Promises: the same state and input give the same state and commands; no clock, thread or I/O in here. It is level-triggered
// as the protocol is: only the newest directive counts, and after each input the machine compares the wanted state with what
// the train thread does. The train thread does one thing at a time: a second Start* command is given only after the end of
// the first came in as an input.
// Refuses: to take part in a generation that this worker was fenced off from; nor in one that it gave up together with its
// job, of which a service whose database was put back from an older copy may still speak.
// Thread: the caller calls it from one thread at a time, and carries out the commands in order before the next input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/protocol/messages.h"

namespace holdfast::worker {

// --- inputs
struct DirectiveReceived {
  rendezvous::Directive directive;
};
struct PrepareEnded {
  enum class How { kPrepared, kRefused, kInterrupted } how;
  std::string reason;  // why it was refused
  std::string data_digest;
  int64_t data_tokens = 0;
};
struct Joined {  // the ring is formed and the state agreed on
  int64_t step;
};
struct StepCommitted {
  int64_t step;
};
struct RunEnded {
  int64_t step;  // the step of the state that is held; -1: none
  std::string reason;
  int64_t superseded_by = 0;  // a generation beyond this one was found at work; 0: none was
};
struct Released {};
struct TerminationAsked {};  // SIGTERM
struct GraceOver {};         // nobody granted the termination in time
using Input =
    std::variant<DirectiveReceived, PrepareEnded, Joined, StepCommitted, RunEnded, Released, TerminationAsked, GraceOver>;

// --- commands to the train thread, and to the process
struct StartPrepare {
  std::string job;
  rendezvous::JobSpec spec;
};
struct StartRun {
  rendezvous::Directive join;
};
struct StartRelease {};
// Record this profile from now on, or none; the newest counts.
struct RecordProfile {
  std::optional<rendezvous::ProfileOrder> order;
};
struct AskYield {  // stop after the step that all ranks agree on
  bool checkpoint = false, leaving = false;
  bool released = false;  // the service takes the worker from the job then
};
struct InterruptTrain {  // stop what was started, now
  std::string reason;
};
struct ExitProcess {
  std::string reason;
};
using Command = std::variant<StartPrepare, StartRun, StartRelease, RecordProfile, AskYield, InterruptTrain, ExitProcess>;

struct Lifecycle {
  enum class Activity : uint8_t { kNone, kPreparing, kRunning, kReleasing };

  rendezvous::Directive wanted;  // the newest directive; idle at first
  bool leaving = false, exiting = false;

  // The work of the train thread. The flags say which of the requests it was already given.
  Activity activity = Activity::kNone;
  bool interrupted = false, yield_asked = false;
  AskYield asked;       // beside to yield
  int64_t running = 0;  // the generation joined or being joined, while kRunning
  bool joined = false;
  std::optional<rendezvous::ProfileOrder> profile;  // the train thread was told of it

  // The job that is held. `job` is "" for none; then the other fields have no meaning. Held and not `prepared`: it is being
  // prepared, or it was refused.
  std::string job;
  int64_t job_born = 0;
  std::string shard;  // the division of its state that it is, or is being, prepared for
  bool prepared = false;
  std::string refusal;
  int64_t fenced = 0;  // the worker takes no part any more in generations of `job` up to this one
  int64_t step = -1;
  int64_t state_generation = 0;  // the last generation joined: the state belongs to its history
  std::string data_digest;
  int64_t data_tokens = 0;
  std::string reason;  // how the last generation ended

  struct GivenUp {
    std::string job;
    int64_t born = 0, fenced = 0;
  };
  static constexpr size_t kGivenUpMax = 100;
  std::vector<GivenUp> given_up;  // the jobs that were held before, the latest last
};

std::vector<Command> advance(Lifecycle& state, const Input& input);

rendezvous::WorkerStatus status_of(const Lifecycle& state, const std::string& incarnation);

}  // namespace holdfast::worker
