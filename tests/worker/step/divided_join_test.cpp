// A newcomer of a divided state: what it computes with comes to it after steps, and until then it is dealt nothing.
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <set>

#include "tests/worker/step/same_bits_fixture.h"

namespace holdfast::worker {
namespace {

struct Kind {
  const char* shard;
  const char* dtype;
};

class DividedJoin : public SameBits, public testing::WithParamInterface<Kind> {
 protected:
  DividedJoin() : whole(tiny_spec(data)) {
    whole.dtype = GetParam().dtype;
    whole.eval_every = 2;
    whole.eval_microbatches = 5;
    spec = whole;
    spec.shard = GetParam().shard;
    spec.replicas = 2;
    spec.checkpoint_store = data.path("own");
  }
  static bool is_float32() { return std::string(GetParam().dtype) == "float32"; }
  static bool has_all_copies(TestRank& rank) { return std::ranges::count(rank.session->copied, false) == 0; }

  // Ranks of which the last has joined after this step, with windows of one chunk at first.
  std::unique_ptr<Ranks> joined_after(int64_t step, int before = 3) {
    auto ranks = std::make_unique<Ranks>(spec, service, before);
    ranks->filling = {1, false};
    ranks->on_commit = [this, step](TestRank& rank, size_t number, int64_t committed) {
      tamper(rank, number, committed);
      if (committed + 1 == step) rank.requests.yield = true;
    };
    ranks->run(Ranks::initial());
    ranks->add();
    return ranks;
  }
  static int64_t held_step(Ranks& ranks) {
    int64_t step = -1;
    for (size_t rank = 0; rank < ranks.size(); ++rank) step = std::max(step, ranks[rank].session->held_step());
    return step;
  }
  // By step, what a job that began at this place among the reports told of it.
  std::map<int64_t, nlohmann::json> points_since(size_t begin) {
    std::map<int64_t, nlohmann::json> all;
    const auto reports = service.received("/progress");
    for (size_t i = begin; i < reports.size(); ++i) {
      for (const auto& point : reports[i]["points"]) all[point["step"]] = point;
    }
    return all;
  }
  static bool computed(const nlohmann::json& point, int rank) {
    if (!point.contains("shares") || point["shares"].empty()) return true;  // as usual
    return std::ranges::any_of(point["shares"], [&](const auto& share) { return share["rank"] == rank; });
  }

  rendezvous::JobSpec whole, spec;
};

INSTANTIATE_TEST_SUITE_P(Kinds, DividedJoin,
                         testing::Values(Kind{"optimizer", "bfloat16"}, Kind{"optimizer", "float16"},
                                         Kind{"optimizer", "float32"}, Kind{"gradients", "bfloat16"},
                                         Kind{"gradients", "float16"}, Kind{"gradients", "float32"}),
                         [](const auto& chosen) { return std::string(chosen.param.shard) + "_" + chosen.param.dtype; });

TEST_P(DividedJoin, TellsDigestsThatWereMadeWhileTheLastStepsCopiesTravelled) {
  const auto ranks = joined_after(4);
  for (size_t rank = 0; rank < 3; ++rank) {
    const auto& early = (*ranks)[rank].session->digested;
    ASSERT_EQ(early.step, 4);
    const auto now = (*ranks)[rank].session->state->digests();
    ASSERT_EQ(early.digests.size(), now.size());
    const auto& sound = (*ranks)[rank].session->sound;
    for (size_t piece = 0; piece < 3 * sound.size(); ++piece) {
      ASSERT_EQ(early.digests[piece].has_value(), sound[piece % sound.size()]) << piece;
      if (early.digests[piece]) {
        EXPECT_EQ(*early.digests[piece], *now[piece]) << piece;
      }
    }
  }
  auto& altered = (*ranks)[1].session->digested.digests;
  (*std::ranges::find_if(altered, [](const auto& digest) { return digest.has_value(); }))->bytes[0] ^= std::byte{1};
  for (const RunStop& stop : ranks->run(Ranks::memory(4))) EXPECT_THAT(stop.reason, testing::HasSubstr("after step 4"));
}

TEST_P(DividedJoin, ComputesNothingBeforeAllCopiesHaveCome) {
  const size_t undisturbed_begin = service.received("/progress").size();
  const std::string hash = undisturbed(whole, 1);
  const auto expected = points_since(undisturbed_begin);
  const size_t begin = service.received("/progress").size();
  const auto ranks = joined_after(4);
  std::set<int64_t> without;  // steps that the newcomer ended without all copies
  ranks->on_commit = [&](TestRank& rank, size_t number, int64_t step) {
    if (number == 3 && !has_all_copies(rank)) without.insert(step);
  };
  const int64_t from = held_step(*ranks);
  run_to_end(*ranks, Ranks::memory(from));
  EXPECT_EQ(ranks->hash(), hash);
  EXPECT_TRUE((*ranks)[3].session->ownership.lacks_nothing());
  const auto told = points_since(begin);
  ASSERT_EQ(told.size(), 20U);
  if (is_float32()) {
    EXPECT_TRUE(without.empty()) << "it has the parameters after the first step, as all ranks do";
    EXPECT_FALSE(computed(told.at(from + 1), 3));
  } else {
    EXPECT_GE(without.size(), 4U) << "windows are small";
    for (const int64_t step : without) EXPECT_FALSE(computed(told.at(step), 3)) << "step " << step;
  }
  EXPECT_TRUE(computed(told.at(20), 3));
  for (const auto& [step, point] : expected) {
    EXPECT_EQ(told.at(step)["data_digest"], point["data_digest"]) << "step " << step;
    EXPECT_EQ(told.at(step).value("validation_loss", nlohmann::json()), point.value("validation_loss", nlohmann::json()))
        << "step " << step;
  }
  EXPECT_THAT(events("newcomer_computes").front(), testing::HasSubstr("rank 3 has the parameters that it computes with"));
}

TEST_P(DividedJoin, GoesOnWithWhatIsThereWhenAnOldRankIsLostMeanwhile) {
  const std::string hash = undisturbed(whole, 1);
  const auto ranks = joined_after(4);
  ranks->on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (number == 1 && step == 8) rank.interrupt.raise("as if it were killed");
  };
  ranks->run(Ranks::memory(held_step(*ranks)));
  ranks->remove(1);
  const auto came = std::ranges::count((*ranks)[2].session->copied, true);
  EXPECT_GT(came, 0);
  std::atomic<bool> was_whole_at_once = true;
  ranks->on_commit = [&, first = held_step(*ranks) + 1](TestRank& rank, size_t number, int64_t step) {
    if (number == 2 && step == first) was_whole_at_once = has_all_copies(rank);
  };
  run_to_end(*ranks, Ranks::memory(held_step(*ranks)));
  EXPECT_EQ(was_whole_at_once, is_float32());
  EXPECT_EQ(ranks->hash(), hash);
  EXPECT_TRUE((*ranks)[2].session->ownership.lacks_nothing());
}

TEST_P(DividedJoin, TakesAllWhenTheOthersLeaveInOrderMeanwhile) {
  const std::string hash = undisturbed(whole, 1);
  const auto ranks = joined_after(4, 2);
  ranks->on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (step != 7) return;
    rank.requests.leaving = number < 2;
    rank.requests.yield = true;
  };
  for (const RunStop& stop : ranks->run(Ranks::memory(held_step(*ranks))))
    EXPECT_EQ(stop.why, RunStop::Why::kYielded) << stop.reason;
  ranks->remove(0);
  ranks->remove(0);
  ranks->on_commit = [](TestRank&, size_t, int64_t) {};
  run_to_end(*ranks, Ranks::memory((*ranks)[0].session->held_step()));
  EXPECT_EQ(ranks->agreements()[0].how, StateAgreement::How::kNothing) << "it had it before";
  EXPECT_EQ(ranks->hash(), hash);
}

TEST_P(DividedJoin, TakesCopiesInWindowsBesideThoseOfAnotherNewcomerAndWhenOneOfThemIsLost) {
  const std::string hash = undisturbed(whole, 1);
  const auto ranks = joined_after(3);
  ranks->add();
  ranks->on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (number == 3 && step == 6) rank.interrupt.raise("as if it were killed");
  };
  ranks->run(Ranks::memory(held_step(*ranks)));
  ranks->remove(3);
  ranks->add();
  ranks->on_commit = [](TestRank&, size_t, int64_t) {};
  run_to_end(*ranks, Ranks::memory(held_step(*ranks)));
  EXPECT_EQ(ranks->hash(), hash);
  for (size_t rank = 0; rank < ranks->size(); ++rank) EXPECT_TRUE(has_all_copies((*ranks)[rank])) << rank;
}

// The ranks choose exponents from a microbatch that each computes; nobody's parameters change in a step that is left out.
TEST_P(DividedJoin, WhileExponentsAreChosenAndStepsAreLeftOut) {
  tamper = [](TestRank& rank, size_t, int64_t step) {
    if (step != 2 && step != 5) return;
    std::ranges::fill(rank.session->state->exponents(), model::TrainState::kUnsetExponent);
    if (step != 5 || rank.session->spec.dtype != "float16") return;
    constexpr model::LossScale kTooLarge{.log2 = 24, .accepted = 0};
    std::memcpy(rank.session->state->tensors().back().data, &kTooLarge, sizeof kTooLarge);
    rank.session->state->bytes_changed();
  };
  const std::string hash = undisturbed(whole, 1);
  for (const int64_t step : {2, 4, 5}) {
    spec.checkpoint_store = data.path("own" + std::to_string(step));
    const auto ranks = joined_after(step);
    ranks->on_commit = tamper;
    run_to_end(*ranks, Ranks::memory(step));
    EXPECT_EQ(ranks->hash(), hash) << step;
  }
}

}  // namespace
}  // namespace holdfast::worker
