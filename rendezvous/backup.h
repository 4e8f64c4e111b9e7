// Backup of a service's database while it runs, and putting one back.
//
// A backup is one file, or with the checkpoints a folder: holdfast.sqlite and checkpoints/JOB/… of the jobs that have not ended
// and whose checkpoints the service keeps. Tokens' files and checkpoints in shared folders are not in it.
//
// Promises: a backup has its name only when it was checked and is durable; nothing is overwritten unless told, and a folder
// never. A restore changes nothing before what it puts in was checked, keeps the database that was there, and can be killed at
// any instruction: then the old database is there or the new one.
// Refuses: to restore below a running service.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "rendezvous/sqlite_backup.h"

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
  std::vector<std::string> notes;  // what is not in it, in sentences
};
// The error is a sentence for people.
tl::expected<BackupReport, std::string> back_up(const BackupOptions& options);

struct RestoreReport {
  DatabaseContents contents;
  std::string replaced;  // where the database is kept that was there; "" when there was none
  std::vector<CopiedCheckpoint> checkpoints;
  std::vector<std::string> notes;
};
// `from`: what back_up made, a file or a folder, or a copy of a stopped service's holdfast.sqlite.
tl::expected<RestoreReport, std::string> restore(const std::string& from, const std::string& data_dir);

}  // namespace holdfast::rendezvous
