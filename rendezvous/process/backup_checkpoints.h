// Copies whole checkpoints from one folder of objects to another.
//
// Promises: every copy was verified in its new place, byte by byte. A checkpoint that retention removes meanwhile is left out,
// because newer ones exist. A checkpoint that is damaged at its source is named in `damaged`, and is not in the copy.
// Refuses: to succeed after any other failure, such as a full disk or an unreadable folder.
// Thread: any; the function blocks.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "rendezvous/process/backup.h"

namespace holdfast::rendezvous {

struct DamagedCheckpoint {
  std::string job;
  int64_t step = 0;
  std::string why;
};
struct CheckpointCopies {
  std::vector<CopiedCheckpoint> copied;
  std::vector<DamagedCheckpoint> damaged;
};

// Copies the checkpoints of one job, from checkpoints/JOB in `from_data_dir` to checkpoints/JOB in `to_data_dir`. Checkpoints
// that are already there stay as they are. The error is a sentence for people.
tl::expected<CheckpointCopies, std::string> copy_checkpoints(const std::string& from_data_dir, const std::string& to_data_dir,
                                                             const std::string& job);

}  // namespace holdfast::rendezvous
