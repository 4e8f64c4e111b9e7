// The promise: the state after step s does not depend on how many ranks there are, nor on who comes, goes or fails.
#include <gtest/gtest.h>

#include <map>

#include "tests/worker/step/same_bits_fixture.h"

namespace holdfast::worker {
namespace {

// After some steps the scale is made far too fine, on every rank alike, so that the next step overflows.
void make_it_overflow(TestRank& rank, size_t, int64_t step) {
  if (step != 4 && step != 11) return;
  auto exponents = rank.session->state->exponents();
  for (size_t t = 0; t < exponents.size(); t += 2) exponents[t] += 9;
}

TEST_F(SameBits, AtAnyWorldSizeThoughMicrobatchesDoNotDivide) {
  const auto spec = tiny_spec(data);
  const std::string one = undisturbed(spec, 1);
  expect_with_more_ranks(spec, one);
}

// Several files, of other lengths and weights: the shorter is gone through several times.
std::string a_mixture(const TestData& data) {
  return data.path("train.bin") + ":0.7," + data.path("val.bin") + ":0.2," + data.path("short.bin") + ":0.1";
}

TEST_F(SameBits, WithAMixtureOfFiles) {
  auto spec = tiny_spec(data);
  spec.train_data_path = a_mixture(data);
  const std::string one = undisturbed(spec, 1);
  EXPECT_NE(one, undisturbed(tiny_spec(data), 1));
  EXPECT_EQ(undisturbed(spec, 2), one);
  EXPECT_EQ(undisturbed(spec, 3), one);
  EXPECT_EQ(with_a_rank_lost(spec, 7), one);
}

TEST_F(SameBits, WithAMixtureOfFilesAndLocalSteps) {
  auto spec = tiny_spec(data);
  spec.train_data_path = a_mixture(data);
  spec.nodes = 3;
  spec.global_batch_size = 12;  // 2 microbatches of each replica in an inner step
  spec.sync_every = 4;
  spec.total_steps = 7;
  spec.warmup_steps = 1;
  const std::string one = undisturbed(spec, 1);
  EXPECT_EQ(undisturbed(spec, 3), one);
  EXPECT_EQ(with_a_rank_lost(spec, 3), one);
}

// Another model's weights, which a seed's job has left in its checkpoint.
TEST_F(SameBits, WithTheWeightsOfAnotherModelToBeginWith) {
  auto spec = tiny_spec(data);
  spec.checkpoint_store = data.path("first");
  Ranks first(spec, service);
  checkpoint_after(9, spec, first);
  auto tuned = tiny_spec(data);
  tuned.init_from = data.path("first/j1");
  const std::string one = undisturbed(tuned, 1);
  EXPECT_NE(one, undisturbed(tiny_spec(data), 1));
  EXPECT_EQ(undisturbed(tuned, 3), one);
  auto divided = tuned;
  for (const char* shard : {"optimizer", "parameters"}) {
    divided.shard = shard;
    EXPECT_EQ(undisturbed(divided, 3), one) << shard;
  }
  EXPECT_EQ(with_a_rank_lost(tuned, 7), one);
}

TEST_F(SameBits, WhenGradientsOverflowTheirScale) {
  tamper = make_it_overflow;
  const auto spec = tiny_spec(data);
  const std::string one = undisturbed(spec, 1);
  EXPECT_GE(events("gradients_repacked", 2).size(), 2U);
  expect_with_more_ranks(spec, one);
}

TEST_F(SameBits, RepackedStepsAreToldAtEachDoubling) {
  tamper = [](TestRank& rank, size_t, int64_t) {
    auto exponents = rank.session->state->exponents();
    for (int32_t& exponent : exponents) exponent += 12;
  };
  undisturbed(tiny_spec(data), 1);  // 20 steps; the first has no scale to outgrow
  const auto told = events("gradients_repacked", 5);
  ASSERT_EQ(told.size(), 5U) << "after 1, 2, 4, 8 and 16";
  EXPECT_NE(told.back().find("so far 16 steps"), std::string::npos) << told.back();
}

TEST_F(SameBits, With16BitIntegersOnTheWireToo) {
  auto spec = tiny_spec(data);
  const std::string in_32_bits = undisturbed(spec, 2);
  spec.wire_dtype = "int16";
  for (const bool overflowing : {false, true}) {
    if (overflowing) tamper = make_it_overflow;
    const std::string one = undisturbed(spec, 1);
    EXPECT_NE(one, in_32_bits) << "it is another rounding";
    for (int world_size = 2; world_size <= 4; ++world_size)
      EXPECT_EQ(undisturbed(spec, world_size), one) << world_size << " ranks, overflowing " << overflowing;
  }
}

TEST_F(SameBits, With16BitIntegersWhenARankIsCutOffInTheMiddleOfAStep) {
  auto spec = tiny_spec(data);
  spec.wire_dtype = "int16";
  const std::string undisturbed_hash = undisturbed(spec, 1);
  EXPECT_EQ(with_a_rank_lost(spec, 7), undisturbed_hash);
}

TEST_F(SameBits, WhereActivationsAreComputedAgain) {
  auto spec = tiny_spec(data);
  spec.n_layer = 3;
  spec.total_steps = 6;
  const std::string kept = undisturbed(spec, 1);
  const auto activations = [&] { return TestRank(spec, service.url(), "w").session->model->memory_use().activations; };
  size_t before = activations();
  for (const char* recompute : {"attention", "block"}) {
    spec.recompute = recompute;
    EXPECT_EQ(undisturbed(spec, 2), kept) << recompute;
    EXPECT_LT(activations(), before) << recompute;
    before = activations();
  }
}

TEST_F(SameBits, WithDropout) {
  auto spec = tiny_spec(data);
  spec.n_layer = 2;
  spec.total_steps = 12;
  const std::string without = undisturbed(spec, 1);
  spec.dropout = 0.2;
  const std::string one = undisturbed(spec, 1);
  EXPECT_NE(one, without);
  expect_with_more_ranks(spec, one);
  for (const char* recompute : {"attention", "block"}) {
    auto again = spec;
    again.recompute = recompute;
    EXPECT_EQ(undisturbed(again, 2), one) << recompute;
  }
  const auto all = expect_divided(spec, one);
  for (const auto& each : all) EXPECT_EQ(with_a_rank_lost(each, 7), one) << each.shard;
}

TEST_F(SameBits, WithDropoutFromACheckpointAtAnotherWorldSize) {
  auto spec = tiny_spec(data);
  spec.dropout = 0.2;
  const std::string undisturbed_hash = undisturbed(spec, 1);
  EXPECT_EQ(resumed_by_three(spec), undisturbed_hash);
}

TEST_F(SameBits, WithoutBiases) {
  auto spec = tiny_spec(data);
  spec.total_steps = 8;
  spec.warmup_steps = 2;
  spec.weight_decay = 0;
  const std::string with_biases = undisturbed(spec, 1);
  spec.biases = "off";
  const std::string one = undisturbed(spec, 1);
  EXPECT_NE(one, with_biases);
  expect_with_more_ranks(spec, one);
  expect_divided(spec, one);
  EXPECT_EQ(with_a_rank_lost(spec, 4), one);
}

TEST_F(SameBits, WithAHeadOfItsOwn) {
  auto spec = tiny_spec(data);
  const std::string tied = undisturbed(spec, 1);
  spec.tied_head = "off";
  const std::string one = undisturbed(spec, 1);
  EXPECT_NE(one, tied);
  expect_with_more_ranks(spec, one);
  auto all = expect_divided(spec, one);
  all.push_back(spec);
  all.back().overlap = "off";
  EXPECT_EQ(undisturbed(all.back(), 3), one) << "without overlap";
  for (const auto& each : all) EXPECT_EQ(with_a_rank_lost(each, 7), one) << each.shard;
}

TEST_F(SameBits, WithAHeadOfItsOwnWhenGradientsOverflow) {
  auto spec = tiny_spec(data);
  spec.tied_head = "off";
  tamper = make_it_overflow;
  const std::string one = undisturbed(spec, 1);
  EXPECT_EQ(undisturbed(spec, 3), one);
  spec.shard = "gradients";
  EXPECT_EQ(undisturbed(spec, 3), one);
}

TEST_F(SameBits, WithDropoutAndLocalSteps) {
  auto spec = tiny_spec(data);
  spec.dropout = 0.2;
  spec.nodes = 3;
  spec.global_batch_size = 12;
  spec.sync_every = 4;
  spec.total_steps = 7;
  spec.warmup_steps = 1;
  const std::string one = undisturbed(spec, 1);
  EXPECT_EQ(undisturbed(spec, 3), one);
  EXPECT_EQ(with_a_rank_lost(spec, 3), one);
}

TEST_F(SameBits, WithAsManyRanksAsMicrobatches) {
  auto spec = tiny_spec(data);
  spec.global_batch_size = 6;
  spec.total_steps = 8;
  tamper = make_it_overflow;
  EXPECT_EQ(undisturbed(spec, 3), undisturbed(spec, 1)) << "one microbatch a rank: packed again without computing it again";
}

TEST_F(SameBits, WhenOneJoinsAndOneLeaves) {
  const auto spec = tiny_spec(data);
  const std::string undisturbed_hash = undisturbed(spec, 1);

  Ranks ranks(spec, service);
  ranks.add();
  ranks.add();
  // The service asks one of them to yield, all stop after the same step.
  ranks.on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (number == 1 && step == 5) rank.requests.yield = true;
  };
  for (const RunStop& stop : ranks.run(Ranks::initial())) EXPECT_EQ(stop.why, RunStop::Why::kYielded) << stop.reason;
  const int64_t yielded = ranks[0].session->state->step;
  ranks.hash();

  ranks.add();  // has no state
  EXPECT_EQ(ranks[2].session->held_step(), -1);
  ranks.on_commit = [&](TestRank& rank, size_t number, int64_t step) {
    if (number == 0 && step == yielded + 4) rank.requests.leaving = true;
  };
  for (const RunStop& stop : ranks.run(Ranks::memory(yielded))) EXPECT_EQ(stop.why, RunStop::Why::kYielded) << stop.reason;
  const int64_t left = ranks[0].session->state->step;
  EXPECT_GT(left, yielded);
  ranks.hash();

  ranks.remove(0);  // the first leaves; the one that joined and the other finish
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(left));
  EXPECT_EQ(ranks.hash(), undisturbed_hash);
}

TEST_F(SameBits, WhenARankIsCutOffInTheMiddleOfAStep) {
  const auto spec = tiny_spec(data);
  const std::string undisturbed_hash = undisturbed(spec, 1);
  Ranks ranks(spec, service);
  for (int i = 0; i < 3; ++i) ranks.add();
  ranks.on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (number == 1 && step == 7) rank.interrupt.raise("as if it were killed");
  };
  const auto stops = ranks.run(Ranks::initial());
  EXPECT_EQ(stops[1].why, RunStop::Why::kInterrupted);
  EXPECT_EQ(stops[0].why, RunStop::Why::kFault) << stops[0].reason;
  EXPECT_EQ(stops[2].why, RunStop::Why::kFault) << stops[2].reason;
  EXPECT_EQ(stops[0].fault_kind, "connection_lost") << stops[0].reason;
  ranks.remove(1);
  const int64_t furthest = std::max(ranks[0].session->state->step, ranks[1].session->state->step);
  EXPECT_GE(furthest, 7);
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(furthest));
  EXPECT_EQ(ranks.hash(), undisturbed_hash);
}

TEST_F(SameBits, FromACheckpointAtAnotherWorldSize) {
  const auto spec = tiny_spec(data);
  const std::string undisturbed_hash = undisturbed(spec, 1);
  EXPECT_EQ(resumed_by_three(spec), undisturbed_hash);
}

TEST_F(SameBits, ACheckpointThatDoesNotVerifyIsNamedByAllWhoReadItAndLoadedByNobody) {
  auto spec = tiny_spec(data);
  undisturbed(spec, 1);  // which leaves the checkpoint of its end
  for (const char* shard : {"none", "optimizer"}) {
    spec.shard = shard;
    Ranks ranks(spec, service, 2);
    const auto stops = ranks.run(Ranks::checkpoint(spec, 12));
    for (const RunStop& stop : stops) {
      const bool reads = spec.shard != "none" || &stop == &stops[0];
      EXPECT_EQ(stop.why, reads ? RunStop::Why::kFault : RunStop::Why::kInterrupted) << stop.reason;
      EXPECT_EQ(stop.fault_kind, reads ? "checkpoint_unreadable" : "");
      EXPECT_EQ(stop.checkpoint_step, reads ? 12 : -1);
    }
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(ranks[i].session->held_step(), -1);
  }
}

TEST_F(SameBits, ACheckpointIsWaitedForWhereItsVolumeIsNotMounted) {
  auto spec = tiny_spec(data);
  for (const char* shard : {"none", "optimizer"}) {
    spec.shard = shard;
    const std::string hash = undisturbed(spec, 2);
    const std::string folder = spec.checkpoint_store + "/j1";
    std::filesystem::rename(folder, data.path("volume"));
    Ranks ranks(spec, service, 2);  // each makes the folder that it does not find
    std::atomic<int> told = 0;
    ranks.on_away = [&](const std::string& text) {
      if (told++ > 0) return;  // the other rank's, of a divided state
      EXPECT_NE(text.find("is its volume mounted on this machine?"), std::string::npos) << text;
      std::filesystem::remove_all(folder);
      std::filesystem::rename(data.path("volume"), folder);
    };
    run_to_end(ranks, Ranks::checkpoint(spec, spec.total_steps));
    EXPECT_GE(told, 1);
    EXPECT_EQ(ranks.hash(), hash);
    std::filesystem::remove_all(folder);
  }
}

TEST_F(SameBits, AWorkerThatLeavesDoesNotWaitForAVolumeThatIsNotMounted) {
  const auto spec = tiny_spec(data);
  Ranks ranks(spec, service, 1);
  ranks.on_away = [&](const std::string&) { ranks[0].requests.leaving = true; };
  const auto stops = ranks.run(Ranks::checkpoint(spec, 12));
  EXPECT_EQ(stops[0].why, RunStop::Why::kInterrupted) << stops[0].reason;
}

TEST_F(SameBits, TheLossAndTheLedgersDigestAreTheSameToo) {
  const auto spec = tiny_spec(data);
  const auto reported = [&](int world_size) {
    const size_t begin = service.received("/progress").size();
    undisturbed(spec, world_size);
    std::map<int64_t, std::string> points;
    const auto all = service.received("/progress");
    for (size_t i = begin; i < all.size(); ++i) {
      for (const auto& p : all[i]["points"]) {
        points[p["step"]] = p["data_digest"].get<std::string>() + " " + p["loss"].dump() + " " + p["gradient_norm"].dump();
      }
    }
    return points;
  };
  const auto one = reported(1);
  EXPECT_EQ(one.size(), 20U);
  EXPECT_EQ(reported(3), one);
}

TEST_F(SameBits, ValidationLossToo) {
  auto spec = tiny_spec(data);
  spec.eval_every = 5;
  spec.eval_microbatches = 5;
  const auto validation = [&](int world_size) {
    const size_t begin = service.received("/progress").size();
    undisturbed(spec, world_size);
    std::map<int64_t, std::string> losses;
    const auto all = service.received("/progress");
    for (size_t i = begin; i < all.size(); ++i) {
      for (const auto& p : all[i]["points"]) {
        if (p.contains("validation_loss") && !p["validation_loss"].is_null()) losses[p["step"]] = p["validation_loss"].dump();
      }
    }
    return losses;
  };
  const auto one = validation(1);
  EXPECT_EQ(one.size(), 4U);
  EXPECT_EQ(validation(2), one);
}

TEST_F(SameBits, TheFloatReductionTrainsToo) {
  auto spec = tiny_spec(data);
  spec.reduction = "float";
  for (const char* wire : {"float32", "bfloat16", "float16", "int8"}) {
    SCOPED_TRACE(wire);
    spec.wire_dtype = wire;
    EXPECT_FALSE(undisturbed(spec, 3).empty()) << "all ranks have the same bits, though other than at another world size";
  }
}

// --- what happens to steps that the service has not confirmed

TEST_F(SameBits, TheNextRank0ReportsWhatTheServiceHasNotSeen) {
  const auto spec = tiny_spec(data);
  service.answer_with([](const rendezvous::HttpRequest& request) -> std::optional<rendezvous::HttpResponse> {
    if (request.path.ends_with("/progress") && nlohmann::json::parse(request.body)["generation"] == 1) {
      return FakeService::problem(503, "away");
    }
    return std::nullopt;
  });
  Ranks ranks(spec, service);
  ranks.add();
  ranks.add();
  ranks.on_commit = [](TestRank& rank, size_t, int64_t step) {
    if (step == 4) rank.requests.yield = true;
  };
  ranks.run(Ranks::initial());
  const int64_t reached = ranks[0].session->state->step;
  ranks.remove(0);  // rank 0 dies with all that it wanted to report
  ranks.add();
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(reached));
  std::vector<int64_t> steps;
  for (const auto& report : service.received("/progress")) {
    if (report["generation"] == 1) continue;
    for (const auto& p : report["points"]) steps.push_back(p["step"]);
  }
  std::vector<int64_t> all(20);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i) + 1;
  EXPECT_EQ(steps, all);
}

}  // namespace
}  // namespace holdfast::worker
