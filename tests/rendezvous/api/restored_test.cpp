// A database put back from a copy while the workers went on, as the requests of workers show it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "rendezvous/data_dir/restored_mark.h"
#include "storage/checkpoint.h"
#include "tests/rendezvous/api/obedient_workers.h"

namespace holdfast::rendezvous {
namespace {

using testing::Contains;
using testing::Not;

class RestoredTest : public ObedientWorkersTest {
 protected:
  RestoredTest() { total_steps_ = 1000; }

  // Copies the database as `sqlite3 .backup` does.
  void copy_database() {
    stop();
    std::filesystem::copy_file(folder_ + "/holdfast.sqlite", folder_ + "/copy.sqlite");
    start();
  }
  void put_the_copy_back() {
    stop();
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(folder_ + "/holdfast.sqlite" + suffix);
    std::filesystem::copy_file(folder_ + "/copy.sqlite", folder_ + "/holdfast.sqlite");
    start();
  }
  void stop() {
    service_.reset();
    watched_.reset();
    store_.reset();
  }
  void rounds(int number) {
    for (int i = 0; i < number; ++i) round("j1");
  }
  // Copies the database in generation 1 with the first incarnation of w1, and trains on until both have ended.
  void train_past_a_copy() {
    begin_anew();
    comes("w1");
    ask("POST", "/v1/jobs", long_spec());
    rounds(6);
    copy_database();
    dies("w1");
    comes("w1", 2);
    rounds(15);
  }
  Json long_spec() {
    Json spec = this->spec();
    spec["total_steps"] = 1000;
    spec["retries"] = 3;  // which workers never hear of
    return spec;
  }
  // As a worker has it in its manifests: made of what it was told, and with what the data and the workers have settled.
  Json spec_of_a_manifest() {
    JobSpec told = job_spec_from_json(to_json_for_workers(job_spec_from_json(show()["spec"])));
    told.shard = "optimizer";
    Json written = to_json(told.with_steps_over(int64_t{1} << 40));
    written["a_field_of_a_newer_release"] = 1;
    return written;
  }
  void write_checkpoint(int64_t step, int64_t generation, const std::string& folder,
                        const Json& other_fields = Json::object()) {
    const auto store = storage::open_directory_store(folder, storage::MissingFolder::kMake);
    ASSERT_TRUE(store);
    storage::Manifest manifest;
    manifest.job = "j1";
    manifest.step = step;
    manifest.generation = generation;
    manifest.spec = spec_of_a_manifest();
    manifest.spec.update(other_fields);
    manifest.created_at = show()["submitted_at"];
    const std::vector<std::byte> bytes(64);
    const storage::ConstTensor tensor{"wte", "float32", {16}, bytes};
    ASSERT_TRUE(storage::write_checkpoint(**store, manifest, {&tensor, 1}));
  }
  std::string events_of(const std::string& kind) {
    std::string text;
    const Json page = ask("GET", "/v1/events?limit=1000").json();
    for (const auto& event : page["events"]) {
      if (event["kind"] == kind) text += event["message"].get<std::string>() + "\n";
    }
    return text;
  }
};

TEST_F(RestoredTest, WorkersThatTheCopyNeverKnewKeepTheirStateAndNumbersNeverGoBack) {
  begin_anew();
  comes("w1");
  comes("w2");
  ask("POST", "/v1/jobs", long_spec());
  rounds(6);
  copy_database();
  rounds(2);
  // Both workers are replaced, so that no incarnation in the copy is alive.
  dies("w2");
  comes("w2", 2);
  rounds(15);
  dies("w1");
  comes("w1", 2);
  rounds(15);
  const int64_t step = acknowledged_, generation = newest_;
  ASSERT_GT(generation, 3);
  put_the_copy_back();
  rounds(30);
  const Json shown = show();
  EXPECT_GT(shown["generation"], generation);
  EXPECT_EQ(shown["world_size"], 2);
  EXPECT_GT(acknowledged_, step) << "it trains on, from where it was";
  const Json ledger = ask("GET", "/v1/jobs/j1/ledger").json();
  std::set<int64_t> accounted;
  for (const Json& row : ledger["rows"]) {
    EXPECT_TRUE(row["voided_by"].is_null());
    for (int64_t s = row["first_step"]; s <= row["last_step"]; ++s) accounted.insert(s);
  }
  EXPECT_THAT(accounted, Not(Contains(step))) << "nobody knows who computed it";
  EXPECT_THAT(accounted, Contains(acknowledged_));
  EXPECT_NE(events_of("database_older").find("speaks of generation"), std::string::npos) << events_of("database_older");
  EXPECT_NE(events_of("records_missing").find("steps 9 to "), std::string::npos) << events_of("records_missing");
}

TEST_F(RestoredTest, ARestartInTheMiddleOfItChangesNothing) {
  train_past_a_copy();
  const int64_t step = acknowledged_, generation = newest_;
  put_the_copy_back();
  rounds(2);
  EXPECT_EQ(show()["generation"], generation) << "the number, durable before anything forms";
  restart();
  rounds(30);
  EXPECT_GT(show()["generation"], generation);
  EXPECT_GT(acknowledged_, step);
}

TEST_F(RestoredTest, CheckpointsThatTheCopyDoesNotKnowAreFoundOnDisk) {
  train_past_a_copy();
  const int64_t step = acknowledged_, generation = newest_;
  write_checkpoint(step, generation, folder_ + "/checkpoints/j1");
  // No live worker could report the checkpoint.
  dies("w1");
  put_the_copy_back();
  EXPECT_NE(events_of("checkpoint_found").find(fmt::format("checkpoints of step {} are on disk", step)), std::string::npos);
  comes("w1", 3);
  rounds(60);  // the service waits 10 s for workers that may know more
  EXPECT_GT(newest_, generation);
  EXPECT_GT(acknowledged_, step);
  EXPECT_NE(events_of("generation_formed").find(fmt::format("from the checkpoint of step {}", step)), std::string::npos);
  EXPECT_NE(events_of("records_missing"), "");
}

// The checkpoint that the copy knows was removed since, and no worker is alive. The job goes on from the checkpoint on disk,
// which is of the generation that the copy knows.
TEST_F(RestoredTest, CheckpointsOfAKnownGenerationAreFoundByTheFirstStartAfterARestore) {
  begin_anew();
  comes("w1");
  ask("POST", "/v1/jobs", long_spec());
  rounds(12);
  ASSERT_THAT(checkpoints_, Contains(10)) << "the copy knows one, which is not on disk";
  copy_database();
  rounds(15);
  const int64_t step = acknowledged_;
  ASSERT_EQ(newest_, 1);
  write_checkpoint(step, 1, folder_ + "/checkpoints/j1");
  dies("w1");
  set_restored_mark(folder_);
  put_the_copy_back();
  EXPECT_NE(events_of("checkpoint_found").find(fmt::format("checkpoints of step {} are on disk", step)), std::string::npos);
  EXPECT_FALSE(has_restored_mark(folder_)) << "it has looked";
  comes("w1", 2);
  rounds(60);
  EXPECT_EQ(newest_, 2);
  EXPECT_GT(acknowledged_, step);
  EXPECT_NE(events_of("generation_formed").find(fmt::format("from the checkpoint of step {}", step)), std::string::npos)
      << events_of("generation_formed");
}

TEST_F(RestoredTest, ThoseOfTheGenerationThatTrainsOnDisturbNobody) {
  begin_anew();
  comes("w1");
  ask("POST", "/v1/jobs", long_spec());
  rounds(8);
  copy_database();
  rounds(8);
  write_checkpoint(acknowledged_, 1, folder_ + "/checkpoints/j1");
  const int64_t step = acknowledged_;
  set_restored_mark(folder_);
  put_the_copy_back();
  EXPECT_NE(events_of("checkpoint_found"), "");
  rounds(12);
  EXPECT_EQ(newest_, 1);
  EXPECT_GT(acknowledged_, step);
}

TEST_F(RestoredTest, CheckpointsOfAnotherJobOfTheSameIdAreLeftAlone) {
  train_past_a_copy();
  write_checkpoint(acknowledged_, newest_, folder_ + "/checkpoints/j1", {{"seed", 77}});
  dies("w1");
  put_the_copy_back();
  EXPECT_EQ(events_of("checkpoint_found"), "");
}

TEST_F(RestoredTest, ACheckpointThatIsNotRegisteredYetIsNoSignOfAnOlderCopy) {
  begin_anew();
  comes("w1");
  ask("POST", "/v1/jobs", long_spec());
  rounds(7);
  write_checkpoint(acknowledged_, newest_, folder_ + "/checkpoints/j1");
  restart();
  EXPECT_EQ(events_of("checkpoint_found"), "");
  rounds(6);
  EXPECT_EQ(newest_, 1);
}

TEST_F(RestoredTest, AJobThatTheCopyDoesNotKnowIsSaidAndItsNumberIsNotUsedAgain) {
  begin_anew();
  comes("w1");
  copy_database();
  ask("POST", "/v1/jobs", long_spec());
  rounds(6);
  std::filesystem::create_directories(folder_ + "/checkpoints/j1/x");
  std::ofstream(folder_ + "/checkpoints/j1/x/manifest.json") << "{}";
  put_the_copy_back();
  rounds(4);
  EXPECT_EQ(hands_.at("w1").status.phase, Phase::kIdle);
  EXPECT_NE(events_of("database_older").find("works for job j1"), std::string::npos);
  EXPECT_NE(events_of("database_older").find("holds checkpoints of job j1"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/checkpoints/j1/x/manifest.json"));
  EXPECT_EQ(ask("POST", "/v1/jobs", long_spec()).json()["id"], "j2");
}

TEST_F(RestoredTest, AnIdThatIsGivenAgainIsAnotherJob) {
  begin_anew();
  comes("w1");
  copy_database();
  ask("POST", "/v1/jobs", long_spec());
  rounds(12);
  const int64_t step = hands_.at("w1").status.step;
  ASSERT_GT(step, 2);
  // As on another machine: only the worker knows of the job, and it has not found the service yet.
  std::filesystem::remove_all(folder_ + "/checkpoints");
  put_the_copy_back();
  ASSERT_EQ(ask("POST", "/v1/jobs", long_spec()).json()["id"], "j1");
  formed_.clear();
  acknowledged_ = newest_ = 0;
  for (int i = 0; i < 40 && newest_ == 0; ++i) rounds(1);
  EXPECT_EQ(newest_, 1) << "nothing is known of the old job's generations";
  EXPECT_NE(events_of("generation_formed").find("generation 1 forms of w1, from the beginning"), std::string::npos);
  EXPECT_NE(events_of("database_older").find("w1 works for another job j1"), std::string::npos) << events_of("database_older");
}

TEST_F(RestoredTest, AJobThatIsStoppedBeforeItsNextGenerationNamesItsGap) {
  train_past_a_copy();
  put_the_copy_back();
  rounds(3);
  ASSERT_EQ(events_of("records_missing"), "");
  ask("POST", "/v1/jobs/j1/stop");
  EXPECT_NE(events_of("records_missing").find("steps "), std::string::npos);
}

// A follower that saw rows before the restore comes back long after it: it gets new rows, each once, and no earlier row.
TEST_F(RestoredTest, FollowersThatSawMoreThanTheCopyKnowsMissNothingAndSeeNothingTwice) {
  begin_anew();
  comes("w1");
  ask("POST", "/v1/jobs", long_spec());
  rounds(6);
  copy_database();
  rounds(20);
  const auto newest = [this](const std::string& list) {
    const Json rows = ask("GET", "/v1/jobs/j1/" + list + "?limit=1000").json()[list];
    return rows.empty() ? int64_t{0} : rows.back()["id"].get<int64_t>();
  };
  for (const int restore : {1, 2}) {  // twice, from the same copy
    const int64_t event = newest("events"), step = newest("metrics");
    ASSERT_GT(step, 0);
    set_restored_mark(folder_);
    clock_.ms += 1000;
    put_the_copy_back();
    const size_t events_before = ask("GET", "/v1/jobs/j1/events?limit=1000").json()["events"].size();
    rounds(20);
    EXPECT_FALSE(has_restored_mark(folder_));
    const Json events = ask("GET", "/v1/jobs/j1/events?limit=1000").json()["events"];
    const Json after = ask("GET", "/v1/jobs/j1/events?limit=1000&page_token=" + fmt::format("p{:x}", event)).json()["events"];
    ASSERT_GT(after.size(), 0u);
    EXPECT_GE(after.size(), events.size() - events_before) << "restore " << restore;
    for (const Json& row : after) EXPECT_GT(row["id"], event);
    EXPECT_GT(newest("metrics"), step);
  }
}

TEST_F(RestoredTest, AWorkerWithoutAStateDoesNotBeginAJobThatWaitsForAnother) {
  begin_anew();
  comes("w1");
  ask("POST", "/v1/jobs", long_spec());
  Json second = long_spec();
  second["after"] = "j1";
  ask("POST", "/v1/jobs", second);
  comes("w2");
  WorkerStatus& status = hands_.at("w2").status;
  status.phase = Phase::kPrepared;
  status.job = "j2";
  status.generation = 3;
  status.data_digest = "d1";
  const auto told = [&] {
    ask("POST", "/v1/workers/w2/status", status);
    return ask("GET", "/v1/workers/w2/directive?incarnation=w2-1").json()["kind"].get<std::string>();
  };
  EXPECT_EQ(told(), "idle");
  status.step = 10;
  status.state_generation = 3;
  EXPECT_EQ(told(), "prepare") << "steps that were done are kept";
}

TEST_F(RestoredTest, AMemberThatHasNothingOfItsGenerationAnyMoreIsNoMember) {
  begin_anew();
  comes("w1");
  ask("POST", "/v1/jobs", long_spec());
  rounds(4);
  ASSERT_EQ(newest_, 1);
  copy_database();
  ask("POST", "/v1/jobs/j1/stop");
  rounds(6);
  ASSERT_EQ(show()["state"], "cancelled");
  ASSERT_EQ(hands_.at("w1").status.phase, Phase::kIdle);
  put_the_copy_back();
  formed_.clear();  // no worker knows a generation 2 of the lost history
  rounds(12);
  EXPECT_GT(show()["generation"], 1) << "a ring of generation 1 is never formed again";
}

}  // namespace
}  // namespace holdfast::rendezvous
