// Training with the reduction beside the last microbatch's backward pass: the same bits, whatever happens in that part.
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <set>

#include "tests/worker/step/same_bits_fixture.h"
#include "worker/drills/fault_points.h"
#include "worker/step/load_balancer.h"

namespace holdfast::worker {
namespace {

class Overlap : public SameBits {
 protected:
  Overlap() {
    spec = tiny_spec(data);
    spec.n_layer = 3;
  }
  ~Overlap() override { arm_fault_points({}); }

  // Ranks whose buckets are so small that there are several for each layer, and for the embedding.
  std::unique_ptr<Ranks> ranks_of(int world_size) {
    auto ranks = std::make_unique<Ranks>(spec, service);
    for (int i = 0; i < world_size; ++i) ranks->add();
    for (size_t i = 0; i < ranks->size(); ++i) {
      Session& session = *(*ranks)[i].session;
      session.buckets = gradient_buckets(session.model->table(), session.model->gradient_order(), 300);
      EXPECT_GT(session.buckets.size(), 8U);
      EXPECT_EQ(buckets_after(session.buckets, 1), 2U) << "of the embedding";
    }
    ranks->on_commit = tamper;
    return ranks;
  }
  std::string hash_at(int world_size, const std::string& overlap) {
    spec.overlap = overlap;
    const auto ranks = ranks_of(world_size);
    run_to_end(*ranks, Ranks::initial());
    EXPECT_EQ((*ranks)[0].session->state->step, spec.total_steps);
    return ranks->hash();
  }

  // Of three ranks the middle one is cut off when its reduction begins beside the pass of step 8.
  std::vector<RunStop> cut_off_in_the_overlapped_part(Ranks& ranks) {
    const std::string mark = data.path("mark");
    arm_fault_points(*parse_fault_rules("mark@allreduce:rank=1:step=7:file=" + mark));
    std::jthread reaper([&](const std::stop_token& stop) {
      while (!std::filesystem::exists(mark) && !stop.stop_requested()) std::this_thread::yield();
      ranks[1].interrupt.raise("as if it were killed");
      std::filesystem::remove(mark);
    });
    auto stops = ranks.run(Ranks::initial());
    reaper.request_stop();
    reaper.join();
    arm_fault_points({});
    return stops;
  }
  // The survivors go on; with the others' share, and with what they have kept.
  std::string finish_without_the_middle_one(Ranks& ranks) {
    ranks.remove(1);
    EXPECT_EQ(ranks[0].session->held_step(), 7);
    EXPECT_EQ(ranks[1].session->held_step(), 7);
    ranks.on_lost_peer = [](TestRank&, size_t, const CollectiveError&) {};
    run_to_end(ranks, Ranks::memory(7));
    return ranks.hash();
  }

  rendezvous::JobSpec spec;
};

TEST_F(Overlap, ChangesNoBitOfTheExactReduction) {
  for (const char* wire : {"int32", "int16"}) {
    spec.wire_dtype = wire;
    const std::string alone = hash_at(1, "off");
    for (int world_size = 1; world_size <= 4; ++world_size) {
      EXPECT_EQ(hash_at(world_size, "on"), alone) << world_size << " ranks, " << wire;
      EXPECT_EQ(hash_at(world_size, "off"), alone) << world_size << " ranks, " << wire;
    }
  }
}

TEST_F(Overlap, ChangesNoBitOfTheFloatReduction) {
  spec.reduction = "float";
  spec.total_steps =
      LoadBalancer::kWindow - 1;  // before a slow rank could be dealt fewer microbatches, which changes float bits
  for (const char* wire : {"float32", "bfloat16", "float16", "int8"}) {
    spec.wire_dtype = wire;
    for (int world_size = 2; world_size <= 4; ++world_size)
      EXPECT_EQ(hash_at(world_size, "on"), hash_at(world_size, "off")) << world_size << " ranks, " << wire;
  }
}

// One of them has no microbatch left, and so no rows of the embedding either.
TEST_F(Overlap, ChangesNoBitWhereARankHasNothingToCompute) {
  spec.global_batch_size = 4;  // 2 microbatches
  for (const char* wire : {"int32", "int16"}) {
    spec.wire_dtype = wire;
    const std::string alone = hash_at(1, "off");
    EXPECT_EQ(hash_at(3, "on"), alone) << wire;
    EXPECT_EQ(hash_at(3, "off"), alone) << wire;
  }
}

TEST_F(Overlap, ReducesAgainWhatOverflowedAnywhere) {
  tamper = [](TestRank& rank, size_t, int64_t step) {
    if (step != 4 && step != 11) return;
    auto exponents = rank.session->state->exponents();
    for (size_t t = 0; t < exponents.size(); t += 2) exponents[t] += 9;
  };
  const std::string alone = hash_at(1, "off");
  for (int world_size = 2; world_size <= 3; ++world_size) EXPECT_EQ(hash_at(world_size, "on"), alone) << world_size << " ranks";
  EXPECT_GE(events("gradients_repacked", 6).size(), 6U);
}

TEST_F(Overlap, ALossInItIsToldOfOnceAndNotReportedAgain) {
  const std::string undisturbed_hash = hash_at(1, "off");
  spec.overlap = "on";
  const auto ranks = ranks_of(3);
  std::mutex mutex;
  std::multiset<std::pair<size_t, int>> told;  // rank, suspect
  ranks->on_lost_peer = [&](TestRank&, size_t number, const CollectiveError& error) {
    const std::lock_guard lock(mutex);
    told.insert({number, error.suspect_rank});
  };
  const auto stops = cut_off_in_the_overlapped_part(*ranks);
  EXPECT_EQ(stops[1].why, RunStop::Why::kInterrupted) << stops[1].reason;
  for (const size_t survivor : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(stops[survivor].fault_kind, "connection_lost") << stops[survivor].reason;
    EXPECT_TRUE(stops[survivor].told) << "it came out of the overlapped part";
    EXPECT_TRUE(std::ranges::any_of(told, [&](const auto& loss) { return loss.first == survivor; }));
    Session& session = *(*ranks)[survivor].session;
    EXPECT_FALSE(session.gradients->kept(7, session.state->exponents()).empty()) << "its pass was completed, and counts";
  }
  for (const auto& loss : told) EXPECT_EQ(told.count(loss), 1U) << "rank " << loss.first << " on rank " << loss.second;
  EXPECT_EQ(finish_without_the_middle_one(*ranks), undisturbed_hash);
}

TEST_F(Overlap, APassThatIsStoppedInItLosesNothing) {
  const std::string undisturbed_hash = hash_at(1, "off");
  spec.overlap = "on";
  const auto ranks = ranks_of(3);
  // The service's part: a rank that loses a neighbour is told to stop, wherever its pass is.
  ranks->on_lost_peer = [](TestRank& rank, size_t, const CollectiveError&) { rank.interrupt.raise("the generation is over"); };
  cut_off_in_the_overlapped_part(*ranks);
  EXPECT_EQ(finish_without_the_middle_one(*ranks), undisturbed_hash);
}

}  // namespace
}  // namespace holdfast::worker
