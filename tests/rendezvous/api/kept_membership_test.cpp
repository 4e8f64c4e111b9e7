// Every field of KeptMembership that the list of store/kept_fields.h names as a column or in the queueing comes back from
// SQLite.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rendezvous/coordinator/queue.h"
#include "rendezvous/protocol/job_spec.h"
#include "rendezvous/store/kept_fields.h"
#include "rendezvous/store/sqlite/store.h"

namespace holdfast::rendezvous {
namespace {

// A value that no other field has, where the type has so many.
struct Filler {
  int64_t next = 7;
  void fill(std::string& value) { value = "text " + std::to_string(next++); }
  void fill(int64_t& value) { value = next++; }
  static void fill(bool& value) { value = true; }
  static void fill(JobState& value) { value = JobState::kWaiting; }
  static void fill(Stage& value) { value = Stage::kRunning; }
  static void fill(Cause& value) { value = Cause::kOrderly; }
  static void fill(Intent& value) { value = Intent::kPreempt; }
  void fill(JobSpec& value) {
    value.train_data_path = "train.bin";
    value.total_steps = 1000 + next++;
    value = job_spec_from_json(to_json(value));  // as a job has it: with what follows from its other fields
  }
  void fill(std::vector<StateSource>& value) { value = {{StateSource::Kind::kCheckpoint, next++, "j0", "/shared", "hash"}}; }
};

TEST(KeptMembership, ComesBackFromTheDatabase) {
  KeptMembership kept;
  Filler filler;
  const auto fill = [&](const auto& row) { filler.fill(kept.*row.field); };
  for_each_kept_column(fill);
  for_each_kept_queueing_field(fill);

  Job job;
  job.membership = restore_membership(kept, {}, 0);
  JobRow row;
  row.number = 1;
  keep_columns(kept, row);
  row.queueing = queueing_text(job);
  const auto store = open_sqlite_store(":memory:");
  store->begin();
  store->save_job(row);
  store->commit();

  const JobRow found = store->load().jobs.at(0);
  EXPECT_EQ(found, row);
  KeptMembership back;
  read_columns(found, back);
  Job again;
  restore_queueing(again, back, found.queueing, 0, 0);
  const auto is_same = [&](const auto& field) { EXPECT_TRUE(back.*field.field == kept.*field.field) << field.name; };
  for_each_kept_column(is_same);
  for_each_kept_queueing_field(is_same);
}

}  // namespace
}  // namespace holdfast::rendezvous
