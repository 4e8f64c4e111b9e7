// The words of init_from: whose weights a job begins with.
//
//   /models/gpt2                 a file or folder on the workers, as train_data_path; of checkpoints the newest
//   /checkpoints/j1@60           of checkpoints that of step 60
//   job:j1[@STEP]                a job's checkpoint; the service adds the step, and where the objects are if it does not keep
//                                them: job:j1@60 in /shared/checkpoints
//
// Thread: any; everything here is pure.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::rendezvous {

struct InitialSource {
  std::string path;   // "": a job's
  std::string job;    // its id, or name as typed
  int64_t step = -1;  // -1: the newest
  std::string store;  // as JobSpec::checkpoint_store, of a job's
  bool operator==(const InitialSource&) const = default;

  bool of_job() const { return !job.empty(); }
};

InitialSource parse_initial_source(const std::string& init_from);
std::string to_text(const InitialSource& source);

}  // namespace holdfast::rendezvous
