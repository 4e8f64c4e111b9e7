// What a training process tells its supervisor: which GPU it has, and, where it cannot go on, why.
//
// A pipe: the supervisor has one end, the process inherits the other one. Promises: neither waits for the other; what was told
// is read when the process has ended, lines of at most kToldMost bytes. Who is killed gives no reason.
#pragma once

#include <cstddef>
#include <string>

namespace holdfast::worker {

inline constexpr size_t kToldMost = 500;
// Environment of the training process: the file descriptor; and, of a worker that had one in an earlier life, its GPU's name.
inline constexpr const char* kReportVariable = "HOLDFAST_INTERNAL_LIFE_REPORT";
inline constexpr const char* kGpuVariable = "HOLDFAST_INTERNAL_GPU";

struct Told {
  std::string gpu;     // "hip:0"; "": none
  std::string reason;  // "": none was given
};

// The supervisor's side, for one life.
class LifeReport {
 public:
  LifeReport();  // without a pipe, where none is to be had, nothing is heard
  ~LifeReport();
  LifeReport(const LifeReport&) = delete;
  LifeReport& operator=(const LifeReport&) = delete;

  void hand_over() const;  // in the child, between fork and exec
  void born();             // in the parent, once the child has its end
  Told read();             // when it has ended

 private:
  int ears_ = -1, mouth_ = -1;
};

// In the training process; nothing where there is no supervisor.
void tell_gpu(const std::string& device);
void tell_reason(const std::string& reason);

}  // namespace holdfast::worker
