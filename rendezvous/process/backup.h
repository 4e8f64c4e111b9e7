// Backup of a service's database while it runs, and putting one back.
//
// A backup is one file, or with the checkpoints a folder: holdfast.sqlite and checkpoints/JOB/… of the jobs whose checkpoints
// the service keeps and that have not ended, or that one of those goes on from. Tokens' files, checkpoints in shared folders
// and those of other jobs that have ended are not in it.
//
// Promises: a backup has its name only when it was checked and is durable; nothing is overwritten unless told, and a folder
// never. A restore changes nothing before what it puts in was checked, keeps the database that was there, and can be killed at
// any instruction: then the old database is there or the new one. What root makes here belongs to the owner of the data
// directory. After a restore the service's first start also looks for checkpoints that the database does not know.
// Refuses: to restore below a running service; to pass for done when checkpoints could not be copied, but for those that are
// damaged where they come from: these are named, in `damaged`, and everything else is done.
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
  bool force = false;  // a file may be replaced
};
struct CopiedCheckpoint {
  std::string job;
  int64_t step = 0, bytes = 0;
};
struct BackupReport {
  DatabaseContents contents;
  std::vector<CopiedCheckpoint> checkpoints;
  std::vector<std::string> damaged;  // checkpoints, in sentences: they are not in it
  std::vector<std::string> notes;    // what else is not in it, in sentences
};
// The error is a sentence for people.
tl::expected<BackupReport, std::string> back_up(const BackupOptions& options);

struct RestoreReport {
  DatabaseContents contents;
  std::string replaced;  // where the database is kept that was there; "" when there was none
  std::vector<CopiedCheckpoint> checkpoints;
  std::vector<std::string> damaged;  // in the backup: they were not brought back
  std::vector<std::string> notes;
};
// `from`: what back_up made, a file or a folder, or a copy of a stopped service's holdfast.sqlite.
tl::expected<RestoreReport, std::string> restore(const std::string& from, const std::string& data_dir);

}  // namespace holdfast::rendezvous
