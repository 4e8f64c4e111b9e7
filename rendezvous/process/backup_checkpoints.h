// Whole checkpoints from one folder of objects to another.
//
// Promises: what was copied was verified where it lies now, byte by byte; one that retention removes meanwhile is passed over,
// for newer ones are there; one that does not verify where it comes from is named, and is not in the copy.
// Refuses everything else that goes wrong, no space and folders that cannot be read among it: then the copy is not what it
// would be taken for.
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

// Of one job; `from_data_dir` and `to_data_dir` hold checkpoints/JOB. Those that are there already stay as they are. The error
// is a sentence for people.
tl::expected<CheckpointCopies, std::string> copy_checkpoints(const std::string& from_data_dir, const std::string& to_data_dir,
                                                             const std::string& job);

}  // namespace holdfast::rendezvous
