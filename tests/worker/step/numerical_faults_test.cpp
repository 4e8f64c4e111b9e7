// Steps that have no finite gradient, states that went wrong on one rank, ranks that are behind: and the bits at the end.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "tests/worker/step/same_bits_fixture.h"
#include "worker/drills/fault_points.h"

namespace holdfast::worker {
namespace {

using NumericalFaults = SameBits;

float& first_parameter(TestRank& rank) {
  return *rank.session->model->parameters();
}

// From after step `first` until after step `last` one parameter is infinite, on every rank alike.
auto infinite_between(int64_t first, int64_t last) {
  return [=, mutex = std::make_shared<std::mutex>(), before = std::make_shared<float>(0.0F)](TestRank& rank, size_t number,
                                                                                             int64_t step) {
    const std::lock_guard lock(*mutex);
    if (step == first) {
      if (number == 0) *before = first_parameter(rank);
      first_parameter(rank) = std::numeric_limits<float>::infinity();
    }
    if (step == last) first_parameter(rank) = *before;
    rank.session->state->bytes_changed();
  };
}

std::map<int64_t, nlohmann::json> points(FakeService& service, size_t begin) {
  std::map<int64_t, nlohmann::json> all;
  const auto reports = service.received("/progress");
  for (size_t i = begin; i < reports.size(); ++i) {
    for (const auto& p : reports[i]["points"]) all[p["step"]] = p;
  }
  return all;
}

TEST_F(NumericalFaults, AStepWithoutAFiniteGradientIsLeftOutOnAllRanksAlike) {
  tamper = infinite_between(5, 8);
  const auto spec = tiny_spec(data);
  const std::string one = undisturbed(spec, 1);
  const auto at_one = points(service, 0);
  ASSERT_EQ(at_one.size(), 20U) << "every step counts";
  for (int64_t step = 1; step <= 20; ++step) {
    EXPECT_EQ(at_one.at(step).value("refused", false), step >= 6 && step <= 8) << "step " << step;
  }
  EXPECT_EQ(at_one.at(7)["loss"], "nan");
  EXPECT_FALSE(at_one.at(7)["data_digest"].get<std::string>().empty()) << "its data is consumed";
  for (int world_size = 2; world_size <= 3; ++world_size)
    EXPECT_EQ(undisturbed(spec, world_size), one) << world_size << " ranks";
  EXPECT_EQ(events("step_refused", 9)[1],
            "step 7 is left out: its loss or gradient is not finite. Parameters stay as they are on all ranks; 2 in a row so "
            "far, 10 end the job");
}

TEST_F(NumericalFaults, TooManyInARowEndTheJobWithTheReason) {
  tamper = infinite_between(5, 1000);
  auto spec = tiny_spec(data);
  spec.max_refused_steps = 4;
  Ranks ranks(spec, service);
  ranks.add();
  ranks.add();
  ranks.on_commit = tamper;
  std::jthread service_thread([&] {
    EXPECT_TRUE(service.wait_for("/progress", [](const auto& all) { return !all.empty() && all.back()["failure"] != ""; }));
    ranks.interrupt_all("idle");
  });
  ranks.run(Ranks::initial());
  EXPECT_EQ(service.received("/progress").back()["failure"],
            "the loss or gradient was not finite in 4 steps in a row, 6 to 9 (max_refused_steps is 4): lower learning_rate, "
            "raise warmup_steps, or look at the data of these steps");
  EXPECT_EQ(ranks[0].session->state->step, 8);
}

TEST_F(NumericalFaults, WhoJoinsBetweenThemCountsOn) {
  tamper = infinite_between(5, 1000);
  auto spec = tiny_spec(data);
  spec.max_refused_steps = 6;
  Ranks ranks(spec, service);
  const auto yield_at = [&](int64_t last) {
    ranks.on_commit = [this, last](TestRank& rank, size_t number, int64_t step) {
      tamper(rank, number, step);
      if (step == last) rank.requests.yield = true;
    };
  };
  ranks.add();
  yield_at(6);
  ranks.run(Ranks::initial());
  ranks.add();
  yield_at(8);
  ranks.run(Ranks::memory(7));
  ranks.remove(0);  // the one that has seen them all
  std::jthread service_thread([&] {
    EXPECT_TRUE(service.wait_for("/progress", [](const auto& all) { return !all.empty() && all.back()["failure"] != ""; }));
    ranks.interrupt_all("idle");
  });
  ranks.run(Ranks::memory(9));
  const std::string reason = service.received("/progress").back()["failure"];
  EXPECT_NE(reason.find("6 steps in a row, 6 to 11 "), std::string::npos) << reason;
}

// The state of one rank is altered after step 7; states are compared after every step.
class Divergence : public SameBits {
 protected:
  rendezvous::JobSpec spec() {
    auto spec = tiny_spec(data);
    spec.hash_every = 1;
    return spec;
  }
  static void alter(TestRank& rank) {
    first_parameter(rank) += 1e-3F;
    rank.session->state->bytes_changed();
  }
};

TEST_F(Divergence, TheOddOneOutIsFoundAndTakesTheStateOfMost) {
  const std::string undisturbed_hash = undisturbed(spec(), 1);
  Ranks ranks(spec(), service);
  for (int i = 0; i < 3; ++i) ranks.add();
  ranks.on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (number == 1 && step == 7) alter(rank);
  };
  for (const RunStop& stop : ranks.run(Ranks::initial())) {
    EXPECT_EQ(stop.fault_kind, "state_diverged") << stop.reason;
    EXPECT_EQ(stop.suspect_rank, 1);
  }
  EXPECT_EQ(ranks[0].session->held_step(), 7);
  EXPECT_EQ(ranks[1].session->held_step(), -1) << "what it holds is wrong";
  EXPECT_EQ(ranks[2].session->held_step(), 7);
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(7));
  EXPECT_TRUE(ranks.agreements()[1].received);
  EXPECT_EQ(ranks.agreements()[0].donors, 2);
  EXPECT_EQ(ranks.hash(), undisturbed_hash) << "no gradient of the altered state was ever used";
}

TEST_F(Divergence, AStateThatMostContradictIsNeverWrittenDown) {
  auto spec = tiny_spec(data);
  spec.checkpoint_every = 7;  // and compared then, and at no other step
  const std::string undisturbed_hash = undisturbed(spec, 1);
  const size_t before = service.received("/checkpoints").size();
  Ranks ranks(spec, service);
  for (int i = 0; i < 3; ++i) ranks.add();
  ranks.on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (number == 0 && step == 7) alter(rank);
  };
  for (const RunStop& stop : ranks.run(Ranks::initial())) EXPECT_EQ(stop.suspect_rank, 0) << stop.reason;
  EXPECT_EQ(service.received("/checkpoints").size(), before) << "rank 0 writes them, and it was wrong";
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(7));
  EXPECT_EQ(ranks.hash(), undisturbed_hash);
}

TEST_F(Divergence, OfTwoNobodyIsTrusted) {
  Ranks ranks(spec(), service);
  ranks.add();
  ranks.add();
  ranks.on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (number == 1 && step == 7) alter(rank);
  };
  for (const RunStop& stop : ranks.run(Ranks::initial())) EXPECT_EQ(stop.fault_kind, "state_mismatch") << stop.reason;
  for (size_t rank : {0, 1}) EXPECT_EQ(ranks[rank].session->held_step(), -1);
}

TEST_F(Divergence, WhereANewGenerationBeginsMostDecideToo) {
  const std::string undisturbed_hash = undisturbed(spec(), 1);
  Ranks ranks(spec(), service);
  for (int i = 0; i < 3; ++i) ranks.add();
  ranks.on_commit = [](TestRank& rank, size_t, int64_t step) {
    if (step == 6) rank.requests.yield = true;
  };
  ranks.run(Ranks::initial());
  const int64_t reached = ranks[0].session->state->step;
  alter(ranks[0]);
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(reached));
  EXPECT_EQ(ranks.agreements()[2].overruled, 1);
  EXPECT_EQ(ranks.agreements()[2].donor, 1);
  EXPECT_EQ(ranks.hash(), undisturbed_hash);
}

// Of three ranks `ahead` have applied step 8.
class OneStepBehind : public SameBits {
 protected:
  void run(Ranks& ranks, const std::vector<size_t>& ahead) { run_apart(ranks, tiny_spec(data), 8, ahead); }
};

TEST_F(OneStepBehind, TakesTheReducedGradientAndAppliesIt) {
  const std::string undisturbed_hash = undisturbed(tiny_spec(data), 1);
  for (const auto& ahead : std::vector<std::vector<size_t>>{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}}) {
    Ranks ranks(tiny_spec(data), service);
    run(ranks, ahead);
    ranks.on_commit = tamper;
    run_to_end(ranks, Ranks::memory(8));
    EXPECT_EQ(ranks.hash(), undisturbed_hash);
    for (const StateAgreement& agreed : ranks.agreements()) {
      EXPECT_EQ(agreed.how, StateAgreement::How::kGradient);
      EXPECT_EQ(agreed.receivers, 3 - static_cast<int>(ahead.size()));
      EXPECT_EQ(agreed.bytes, static_cast<int64_t>(sizeof(float)) * ranks[0].session->model->table().total);
    }
  }
}

TEST_F(OneStepBehind, WithAStateThatWasWrongBeforeTakesTheWholeState) {
  const std::string undisturbed_hash = undisturbed(tiny_spec(data), 1);
  Ranks ranks(tiny_spec(data), service);
  run(ranks, {0, 1});
  first_parameter(ranks[2]) += 1e-3F;
  ranks[2].session->state->bytes_changed();
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(8));
  EXPECT_EQ(ranks.agreements()[2].how, StateAgreement::How::kPieces);
  EXPECT_EQ(ranks.hash(), undisturbed_hash) << "one wrong state is no reason to give up the others";
}

TEST_F(OneStepBehind, BesideAJoinerEverybodyTakesTheState) {
  const std::string undisturbed_hash = undisturbed(tiny_spec(data), 1);
  Ranks ranks(tiny_spec(data), service);
  run(ranks, {1});
  ranks.add();
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(8));
  EXPECT_EQ(ranks.agreements()[3].how, StateAgreement::How::kPieces);
  EXPECT_EQ(ranks.hash(), undisturbed_hash);
}

TEST_F(OneStepBehind, TakesTheStateWhereTheGradientIsGone) {
  const std::string undisturbed_hash = undisturbed(tiny_spec(data), 1);
  Ranks ranks(tiny_spec(data), service);
  run(ranks, {0, 1});
  ranks[1].session->applied_step = -1;  // as after it computed on
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(8));
  EXPECT_EQ(ranks.agreements()[2].how, StateAgreement::How::kPieces);
  EXPECT_EQ(ranks.hash(), undisturbed_hash);
}

// --- a rank that is slower than the others

TEST_F(SameBits, ASlowRankGetsFewerMicrobatchesAndTheBitsStay) {
  auto spec = tiny_spec(data);
  spec.total_steps = 40;
  const std::string undisturbed_hash = undisturbed(spec, 1);
  const size_t begin = service.received("/progress").size();
  arm_fault_points(*parse_fault_rules("slow@step:rank=1:ms=20"));
  EXPECT_EQ(undisturbed(spec, 2), undisturbed_hash);
  arm_fault_points({});
  EXPECT_NE(events("straggler").front().find("rank 1 takes"), std::string::npos) << events("straggler").front();
  const auto last = points(service, begin).at(40)["shares"];
  ASSERT_EQ(last.size(), 2U) << last;
  EXPECT_GT(last[1]["first"], 4) << "even shares are 4 and 3, and how much less it gets depends on what the machine does: "
                                 << last;
}

}  // namespace
}  // namespace holdfast::worker
