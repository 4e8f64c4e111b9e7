// Whole checkpoints from one folder of objects to another.
//
// Promises: what was copied was verified where it lies now, byte by byte; one that retention removes meanwhile is passed over,
// for newer ones are there; what does not verify is named in `notes` and is not in the copy.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/backup.h"

namespace holdfast::rendezvous {

// Of one job; `from_data_dir` and `to_data_dir` hold checkpoints/JOB. Those that are there already stay as they are.
std::vector<CopiedCheckpoint> copy_checkpoints(const std::string& from_data_dir, const std::string& to_data_dir,
                                               const std::string& job, std::vector<std::string>& notes);

}  // namespace holdfast::rendezvous
