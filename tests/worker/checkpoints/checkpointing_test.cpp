// Checkpoints from the rank that writes them, with a store that can fail and a service that can be away.
#include "worker/checkpoints/checkpointing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "tests/worker/checkpoints/checkpoints_of_a_rank.h"

namespace holdfast::worker {
namespace {

// Checkpointing::write_now's, of a rank that leaves.
constexpr auto one_second = [] { return std::optional(std::chrono::seconds(1)); };

TEST_F(CheckpointsOfARank, AreDurableAndRegisteredWithTheHashOfTheState) {
  make(0);
  EXPECT_EQ(write(6), rank->session->state->hash());
  const auto record = service.received("/checkpoints").back();
  EXPECT_EQ(record["step"], 6);
  EXPECT_EQ(record["store"], spec.checkpoint_store);
  EXPECT_EQ(record["generation"], 1);
  EXPECT_TRUE(storage::verify_checkpoint(*directory, 6));
}

TEST_F(CheckpointsOfARank, AreRegisteredOnceTheServiceKnowsTheStepsBefore) {
  make(0);
  // The service is still asked while the rank is taken down, after this function.
  const auto refusals = std::make_shared<std::atomic<int>>(0);
  const auto registered_early = std::make_shared<std::atomic<bool>>(false);
  service.answer_with(
      [refusals, registered_early](const rendezvous::HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
        if (request.path.ends_with("/checkpoints") && *refusals < 3) *registered_early = true;
        if (!request.path.ends_with("/progress") || *refusals == 3) return std::nullopt;
        ++*refusals;
        return FakeService::problem(503, "busy");
      });
  rendezvous::StepPoint point;
  point.step = 6;
  rank->reporter.committed(point);
  rank->reporter.begin(rank->session->job, 1, true);
  write(6);
  EXPECT_EQ(*refusals, 3);
  EXPECT_FALSE(*registered_early);
}

TEST_F(CheckpointsOfARank, KeepTheNewestFewAndTellTheServiceWhatWentAway) {
  make(2);
  for (const int64_t step : {10, 20, 30, 40}) write(step);
  ASSERT_TRUE(service.wait_for("/checkpoints", [](const auto& all) { return removed_by(all) == std::set<int64_t>{10, 20}; }));
  EXPECT_EQ(there(), (std::vector<int64_t>{30, 40}));
}

TEST_F(CheckpointsOfARank, StayWhileOtherJobsNeedThem) {
  make(1);
  service.say_needed({10, 30});
  for (const int64_t step : {10, 20, 30, 40}) write(step);
  service.say_needed({30});
  write(50);
  rank->checkpoints.reset();  // waits for what it is doing
  EXPECT_EQ(there(), (std::vector<int64_t>{30, 50}));
  EXPECT_EQ(said_to_be_removed(), (std::set<int64_t>{10, 20, 40}));
}

TEST_F(CheckpointsOfARank, AreSaidToBeRemovedEvenIfTheJobIsReleasedMeanwhile) {
  make(1);
  const auto was_asked = std::make_shared<std::atomic<bool>>(false);
  service.answer_with([was_asked](const rendezvous::HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
    const bool tells = request.path.ends_with("/checkpoints") && !nlohmann::json::parse(request.body)["removed_steps"].empty();
    if (!tells || was_asked->exchange(true)) return std::nullopt;
    return FakeService::problem(503, "unavailable");  // it is said again after a pause, in which the job is released
  });
  write(10);
  write(20);
  ASSERT_TRUE(service.wait_for("/checkpoints", [&](const auto&) { return was_asked->load(); }));
  rank->checkpoints.reset();
  EXPECT_EQ(there(), std::vector<int64_t>{20});
  const auto told = service.received("/checkpoints");
  EXPECT_GE(std::ranges::count_if(told, [](const auto& record) { return !record["removed_steps"].empty(); }), 2);
}

TEST_F(CheckpointsOfARank, AreRegisteredOnceTheServiceIsBack) {
  make(0);
  service.go_away();
  std::jthread service_thread([&] {
    while (there().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    service.come_back();
  });
  write(3);
  EXPECT_EQ(service.received("/checkpoints").back()["step"], 3);
}

TEST_F(CheckpointsOfARank, AreRegisteredUnderTheGenerationOfTheDay) {
  make(0);
  service.answer_with([](const rendezvous::HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
    if (request.path.ends_with("/checkpoints") && nlohmann::json::parse(request.body)["generation"] == 1) {
      return FakeService::problem(409, "stale_generation");
    }
    return std::nullopt;
  });
  rank->session->state->step = 5;
  rank->checkpoints->start(state_of(*rank->session));
  ASSERT_TRUE(service.wait_for("/checkpoints", 1));
  rank->checkpoints->enter_generation(2, 1, 100);
  EXPECT_TRUE(service.wait_for("/checkpoints", [](const auto& all) { return all.back()["generation"] == 2; }));
}

TEST_F(CheckpointsOfARank, AreNotRegisteredOnceTheJobWentBackBehindThem) {
  make(0);
  service.answer_with([](const rendezvous::HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
    if (request.path.ends_with("/checkpoints") && nlohmann::json::parse(request.body)["generation"] == 1)
      return FakeService::problem(409, "stale_generation");
    return std::nullopt;
  });
  rank->session->state->step = 5;
  rank->checkpoints->start(state_of(*rank->session));
  ASSERT_TRUE(service.wait_for("/checkpoints", 1));
  rank->checkpoints->enter_generation(2, 0, 3);  // from the state of step 3: 4 and 5 were voided
  write(6);
  for (const auto& record : service.received("/checkpoints")) {
    if (record["generation"] == 2) {
      EXPECT_EQ(record["step"], 6);
    }
  }
}

TEST_F(CheckpointsOfARank, AFullDiskIsAnEventAndTheNextCheckpointIsWrittenWhenThereIsRoom) {
  make(0);
  disk->broken = true;
  rank->session->state->step = 5;
  rank->checkpoints->start(state_of(*rank->session));
  ASSERT_TRUE(service.wait_for("/events", 1));
  const auto event = service.received("/events").front();
  EXPECT_EQ(event["kind"], "checkpoint_failed");
  EXPECT_NE(event["message"].get<std::string>().find("no space left"), std::string::npos) << event;
  EXPECT_TRUE(service.received("/checkpoints").empty());
  disk->broken = false;
  write(6);
  EXPECT_EQ(there(), (std::vector<int64_t>{6}));
}

TEST_F(CheckpointsOfARank, ASlowDiskStopsNoTrainingAndTheNextCheckpointIsLeftOutWithAnEvent) {
  make(0);
  disk->stalled = true;
  rank->session->state->step = 5;
  rank->checkpoints->start(state_of(*rank->session));  // returns while nothing can be written
  rank->session->state->step = 6;
  rank->checkpoints->start(state_of(*rank->session));
  ASSERT_TRUE(service.wait_for("/events", 1));
  const auto event = service.received("/events").front();
  EXPECT_EQ(event["kind"], "checkpoint_skipped");
  EXPECT_NE(event["message"].get<std::string>().find("no checkpoint at step 6: that of step 5 is still being written"),
            std::string::npos)
      << event;
  disk->stalled = false;
  disk->stalled.notify_all();
  write(7);
  EXPECT_EQ(there(), (std::vector<int64_t>{5, 7}));
}

TEST_F(CheckpointsOfARank, TheEndOfAJobSaysThatItWaitsForADiskAndDoes) {
  make(0);
  disk->broken = true;
  std::jthread operator_at_the_disk([&] {
    const bool told = service.wait_for("/events", 1);
    disk->broken = false;
    ASSERT_TRUE(told);
    const auto message = service.received("/events").front()["message"].get<std::string>();
    EXPECT_NE(message.find("the checkpoint of step 8 could not be written, the job waits for it and it is tried again in 5 s"),
              std::string::npos)
        << message;
  });
  write(8);
  EXPECT_EQ(there(), (std::vector<int64_t>{8}));
}

TEST_F(CheckpointsOfARank, TheLastOneIsRegisteredAgainWithAServiceThatHasLostIt) {
  make(0);
  rank->reporter.begin(rank->session->job, 1, true);
  const std::string hash = write(8);
  // The service's database is put back from an older copy.
  service.answer_with([seen = std::make_shared<std::atomic<bool>>(false)](
                          const rendezvous::HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
    if (request.path.ends_with("/checkpoints")) *seen = true;
    if (request.path.ends_with("/progress") && !*seen) return FakeService::problem(409, "checkpoint_unknown");
    return std::nullopt;
  });
  EXPECT_TRUE(rank->reporter.finish(8, hash, rank->interrupt));
  EXPECT_GE(service.received("/checkpoints").size(), 2U);
  EXPECT_EQ(service.received("/checkpoints").back()["step"], 8);
}

// The service gives out numbers anew that its database, put back from an older copy, does not know any more.
TEST_F(CheckpointsOfARank, ALaterGenerationsIsNotWrittenOverAndTheWorkerLearnsItsNumber) {
  make(0);
  rank->checkpoints->enter_generation(7, 0, 0);
  write(8);
  rank->checkpoints->enter_generation(5, 0, 0);
  rank->session->state->step = 8;
  const auto hash = rank->checkpoints->write_now(state_of(*rank->session), rank->interrupt);
  ASSERT_FALSE(hash);
  EXPECT_EQ(hash.error().why, RunStop::Why::kInterrupted) << "a generation above 7 can go on";
  EXPECT_EQ(hash.error().superseded_by, 7);
  rank->checkpoints->enter_generation(8, 0, 8);
  write(8);
}

TEST_F(CheckpointsOfARank, OldOnesThatCannotBeRemovedAreAnEventAndGoAfterTheNext) {
  make(1);
  write(10);
  disk->unremovable = true;
  write(20);
  ASSERT_TRUE(service.wait_for("/events", 1));
  const auto event = service.received("/events").front();
  EXPECT_EQ(event["kind"], "retention_failed");
  EXPECT_NE(event["message"].get<std::string>().find("cannot remove step-0000000010/manifest.json: read-only"),
            std::string::npos)
      << event;
  EXPECT_EQ(there(), (std::vector<int64_t>{10, 20}));
  disk->unremovable = false;
  write(30);
  ASSERT_TRUE(service.wait_for("/checkpoints", [](const auto& all) {
    return !all.empty() && all.back()["removed_steps"] == nlohmann::json::array({10, 20});
  }));
  EXPECT_EQ(there(), (std::vector<int64_t>{30}));
  write(40);
  rank->checkpoints.reset();
  EXPECT_EQ(there(), (std::vector<int64_t>{40})) << "though the job was released meanwhile";
}

TEST_F(CheckpointsOfARank, TheLastOneIsWaitedForAsLongAsItIsWritten) {
  make(0);
  disk->stalled = true;
  rank->session->state->step = 5;
  std::jthread slow_disk([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    disk->stalled = false;
    disk->stalled.notify_all();
  });
  const auto hash = rank->checkpoints->write_now(state_of(*rank->session), rank->interrupt, one_second);
  EXPECT_TRUE(hash) << hash.error().reason;
  EXPECT_EQ(there(), (std::vector<int64_t>{5}));
}

TEST_F(CheckpointsOfARank, TheLastOneThatCannotBeRegisteredIsGivenUpAndAnEventSaysWhereItIs) {
  make(0);
  service.go_away();
  rank->session->state->step = 5;
  const auto told_meanwhile = [calls = 0]() mutable { return ++calls > 20 ? one_second() : std::nullopt; };
  const auto hash = rank->checkpoints->write_now(state_of(*rank->session), rank->interrupt, told_meanwhile);
  ASSERT_FALSE(hash);
  EXPECT_EQ(hash.error().why, RunStop::Why::kInterrupted);
  EXPECT_EQ(there(), (std::vector<int64_t>{5})) << "it is written";
  service.come_back();
  ASSERT_TRUE(service.wait_for("/events", 1));
  const auto message = service.received("/events").front()["message"].get<std::string>();
  EXPECT_NE(message.find("the checkpoint of step 5, the last one, could not be registered in time"), std::string::npos)
      << message;
}

TEST_F(CheckpointsOfARank, TheLastOneIsGivenUpWhileTheServiceCannotBeToldOfRemovedOnes) {
  make(1);
  service.answer_with([](const rendezvous::HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
    if (!request.path.ends_with("/checkpoints") || nlohmann::json::parse(request.body)["removed_steps"].empty())
      return std::nullopt;
    return FakeService::problem(503, "busy");
  });
  write(10);
  write(20);
  rank->session->state->step = 30;
  EXPECT_FALSE(rank->checkpoints->write_now(state_of(*rank->session), rank->interrupt, one_second));
  EXPECT_EQ(there(), (std::vector<int64_t>{20, 30})) << "10 is removed, and that is still to be told";
}

TEST_F(CheckpointsOfARank, ACopyThatIsNotTheStateThatAllRanksHaveEndsTheGeneration) {
  make(0);
  rank->session->state->step = 5;
  const auto hash = rank->checkpoints->write_now(state_of(*rank->session, "of-another-state"), rank->interrupt);
  ASSERT_FALSE(hash);
  EXPECT_EQ(hash.error().why, RunStop::Why::kFault);
  EXPECT_NE(hash.error().reason.find("it was changed while it was copied"), std::string::npos) << hash.error().reason;
  EXPECT_TRUE(there().empty());
}

TEST_F(CheckpointsOfARank, LeftoversOfACrashedWriterGoAwayButNotAtOnce) {
  make(0);
  const std::byte torn[3] = {};
  ASSERT_TRUE(directory->put("step-0000000002/shard-0000-00000000000000000000000000000000.hfs", torn));
  const auto leftovers = [&] { return directory->list("step-0000000002/").value().size(); };
  write(5);
  EXPECT_EQ(leftovers(), 1U);
  write(6);
  rank->checkpoints.reset();  // waits for what it is doing
  EXPECT_EQ(leftovers(), 0U);
}

TEST_F(CheckpointsOfARank, PartsOfOneThatCouldNotBeWrittenGoAwayWithALaterOne) {
  make(0);
  write(5);
  write(6);  // from now on there is nothing to tidy up
  disk->broken = true;
  rank->session->state->step = 7;
  // The tidying after step 6 may still be at work: `start` would leave step 7 out.
  ASSERT_TRUE(rank->checkpoints->hand_in(state_of(*rank->session), rank->interrupt));
  ASSERT_TRUE(service.wait_for("/events", 1));
  EXPECT_EQ(service.received("/events").front()["kind"], "checkpoint_failed");
  const std::byte part[3] = {};
  ASSERT_TRUE(directory->put("step-0000000007/shard-0001-00000000000000000000000000000000.hfs", part));  // another rank's
  disk->broken = false;
  write(8);
  rank->checkpoints.reset();  // waits for what it is doing
  EXPECT_EQ(directory->list("step-0000000007/").value().size(), 0U);
}

}  // namespace
}  // namespace holdfast::worker
