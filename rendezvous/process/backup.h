// Backup of a service's database while the service runs, and restore of such a backup.
//
// A backup without checkpoints is one file. A backup with checkpoints is a folder with holdfast.sqlite and checkpoints/JOB/….
// It has the checkpoints that the service keeps for jobs that have not ended, and for ended jobs from which one of those goes
// on. It does not have token files, data sets, checkpoints in shared folders, or checkpoints of other ended jobs.
//
// Promises: a backup gets its name only after it was checked and is durable. A file is replaced only with `force`, a folder
// never. A restore checks the new database before it changes anything, and keeps the old one. It may be killed at any
// instruction: then either the old database or the new one is in place. Files that root makes here belong to the owner of the
// data directory. After a restore the service's first start also looks for checkpoints that the database does not know.
// Refuses: to restore below a running service; to succeed when a checkpoint could not be copied. One exception: a checkpoint
// that is damaged at its source is named in `damaged`, and everything else is done.
// Thread: any; the functions block.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "rendezvous/store/sqlite/backup.h"

namespace holdfast::rendezvous {

struct BackupOptions {
  std::string data_dir, output;
  bool with_checkpoints = false;
  bool force = false;  // an existing file may be replaced
};
struct CopiedCheckpoint {
  std::string job;
  int64_t step = 0, bytes = 0;
};
struct BackupReport {
  DatabaseContents contents;
  std::vector<CopiedCheckpoint> checkpoints;
  std::vector<std::string> damaged;  // sentences about damaged checkpoints, which are not in the backup
  std::vector<std::string> notes;    // sentences about other things that are not in the backup
};
// The error is a sentence for people.
tl::expected<BackupReport, std::string> back_up(const BackupOptions& options);

struct RestoreReport {
  DatabaseContents contents;
  std::string replaced;  // the file in which the old database is kept; "" when there was none
  std::vector<CopiedCheckpoint> checkpoints;
  std::vector<std::string> damaged;  // sentences about checkpoints that are damaged in the backup: they were not restored
  std::vector<std::string> notes;
};
// `from`: a file or folder that back_up made, or a copy of a stopped service's holdfast.sqlite. The error is a sentence for
// people.
tl::expected<RestoreReport, std::string> restore(const std::string& from, const std::string& data_dir);

}  // namespace holdfast::rendezvous
