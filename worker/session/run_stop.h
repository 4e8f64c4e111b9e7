// The reason why a worker's part in a generation ended, and the result type of everything that can end it.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "worker/collectives/communicator.h"

namespace holdfast::worker {

struct RunStop {
  enum class Why : uint8_t {
    kYielded,      // all ranks agreed to stop after the same step
    kInterrupted,  // told to: fenced, idle, exit
    kFault,        // something broke: is reported to the service
    kJobFailed,    // no membership can go on from here: the job has failed
  };
  Why why = Why::kInterrupted;
  std::string reason = {};  // for people
  // Set for faults: the words of rendezvous::FaultReport.
  std::string fault_kind = {};
  int suspect_rank = -1;
  bool suspect_ended = false;  // its process or kernel ended or refused the connection: it may be gone
  bool told = false;           // the service has heard of it already
  int64_t checkpoint_step = -1;
  bool state_is_wrong = false;  // the state that this rank holds must not be trusted any more
  int64_t superseded_by = 0;    // a generation that this rank was not in has written where it was to write; 0: none has
};
template <typename T>
using RunResult = tl::expected<T, RunStop>;

inline RunStop interrupted(std::string reason) {
  return {.why = RunStop::Why::kInterrupted, .reason = std::move(reason)};
}

inline RunStop fault(std::string kind, std::string reason, int suspect_rank = -1) {
  return {
      .why = RunStop::Why::kFault, .reason = std::move(reason), .fault_kind = std::move(kind), .suspect_rank = suspect_rank};
}

// States that must be the same differ, and this rank cannot tell whose is right.
inline RunStop state_mismatch(std::string reason, int suspect_rank = -1) {
  RunStop stop = fault("state_mismatch", std::move(reason), suspect_rank);
  stop.state_is_wrong = true;
  return stop;
}

inline RunStop job_failed(std::string reason) {
  return {.why = RunStop::Why::kJobFailed, .reason = std::move(reason)};
}

// The service does not know that generation, or has not fenced this one yet: it hears of it from this rank's status.
inline RunStop superseded(int64_t by, std::string reason) {
  RunStop stop = interrupted(std::move(reason));
  stop.superseded_by = by;
  return stop;
}

// The stop for a collective that failed: no fault when it was aborted here.
inline RunStop ring_stop(const CollectiveError& error) {
  const auto ended = [&](const char* kind) {
    RunStop stop = fault(kind, error.detail, error.suspect_rank);
    stop.suspect_ended = error.ended;
    return stop;
  };
  switch (error.kind) {
    case CollectiveError::Kind::kAborted:
      return interrupted(error.detail);
    case CollectiveError::Kind::kTimeout:
      return fault("timeout", error.detail, error.suspect_rank);
    case CollectiveError::Kind::kHandshakeFailed:
      return ended("handshake_failed");
    case CollectiveError::Kind::kConnectionLost:
      break;
  }
  return ended("connection_lost");
}

}  // namespace holdfast::worker
