// The report of a training process to its supervisor: which GPU it has, the highest term of a leader that it has heard of, and,
// if it cannot go on, why.
//
// A pipe: the supervisor has one end, the process inherits the other one. Promises: neither waits for the other. The
// supervisor reads the report when the process has ended, lines of at most kToldMost bytes. A killed process gives no reason;
// of the rest all is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace holdfast::worker {

inline constexpr size_t kToldMost = 500;
// Environment of the training process: the pipe's file descriptor; the GPU's name, if an earlier life of the worker had one;
// and the highest term that an earlier life had heard of, so that a service that was deposed meanwhile is not believed.
inline constexpr const char* kReportVariable = "HOLDFAST_INTERNAL_LIFE_REPORT";
inline constexpr const char* kGpuVariable = "HOLDFAST_INTERNAL_GPU";
inline constexpr const char* kTermVariable = "HOLDFAST_INTERNAL_TERM";

struct Told {
  std::string gpu;     // "hip:0"; "": none
  int64_t term = 0;    // 0: none
  std::string reason;  // "": none was given
};

// The supervisor's side, for one life.
class LifeReport {
 public:
  LifeReport();  // if no pipe can be made, nothing is heard
  ~LifeReport();
  LifeReport(const LifeReport&) = delete;
  LifeReport& operator=(const LifeReport&) = delete;

  void hand_over() const;  // in the child, between fork and exec
  void born();             // in the parent, once the child has its end
  Told read();             // when it has ended

 private:
  int ears_ = -1, mouth_ = -1;
};

// Called in the training process; does nothing without a supervisor.
void tell_gpu(const std::string& device);
void tell_term(int64_t term);  // which is higher than all before
void tell_reason(const std::string& reason);

}  // namespace holdfast::worker
