// A copy of the service's database in one file, made while the service writes, and what such a file holds.
//
// Promises: the copy is the database as after one of its commits, compact, without a write-ahead log beside it; the service
// is not held up (a reader of a write-ahead log blocks no writer). The description was checked by integrity_check.
// Refuses, as StoreError that names the file: what is no database of Holdfast's, is damaged, or is of a newer version.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::rendezvous {

struct OpenJob {  // a job that has not ended
  std::string id, name, state, checkpoint_store;
  int64_t committed_step = 0;
};
struct EndedJob {  // a job whose checkpoints the service keeps
  std::string id;
  bool gone_on_from = false;  // a job that has not ended begins with its state
};
struct DatabaseContents {
  int64_t schema_version = 0, bytes = 0;
  int64_t jobs = 0, workers = 0, checkpoints = 0, events = 0, steps = 0;
  std::vector<OpenJob> open_jobs;
  std::vector<EndedJob> ended_jobs;
};

// Says why the file cannot be read, where it can not: not there, no permission, no file. Throws StoreError.
void insist_on_file(const std::string& path);
// `to` must not exist. It is not durable yet.
void copy_database(const std::string& from, const std::string& to);
// Takes what is in a write-ahead log beside the file into it; there is none after it. Alone with the database.
void fold_write_ahead_log(const std::string& path);
DatabaseContents inspect_database(const std::string& path);

}  // namespace holdfast::rendezvous
