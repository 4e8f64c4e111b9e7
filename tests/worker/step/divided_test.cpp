// The state divided among the ranks: the same bits as of one that is not, and nothing is lost while an owner of each chunk
// lives.
#include <gmock/gmock.h>

#include "tests/worker/step/same_bits_fixture.h"

namespace holdfast::worker {
namespace {

// By what is divided: the job spec's word.
class Divided : public SameBits, public testing::WithParamInterface<const char*> {
 protected:
  rendezvous::JobSpec divided(int64_t replicas) const {
    auto spec = tiny_spec(data);
    spec.shard = GetParam();
    spec.replicas = replicas;
    return spec;
  }
  static size_t owners(Ranks& ranks, size_t chunk) {
    size_t count = 0;
    for (size_t rank = 0; rank < ranks.size(); ++rank) count += ranks[rank].session->state->owned()[chunk] ? 1 : 0;
    return count;
  }
  // The newest step that a rank holds.
  static int64_t held_step(Ranks& ranks) {
    int64_t step = -1;
    for (size_t rank = 0; rank < ranks.size(); ++rank) step = std::max(step, ranks[rank].session->held_step());
    return step;
  }
  // Begins a job with a checkpoint every 4 steps, and loses rank 1 in step 6; returns the record of the checkpoint of step 4.
  nlohmann::json lose_a_rank_after_a_checkpoint(Ranks& ranks) {
    ranks.on_commit = [this](TestRank& rank, size_t number, int64_t step) {
      if (number != 1 || step != 6) return;
      EXPECT_TRUE(service.wait_for("/checkpoints", [](const auto& all) { return !all.empty() && all.back()["step"] == 4; }));
      rank.interrupt.raise("as if it were killed");
    };
    ranks.run(Ranks::initial());
    ranks.remove(1);
    return service.received("/checkpoints").back();
  }
  static void expect_owners(Ranks& ranks, size_t replicas) {
    for (size_t c = 0; c < ranks[0].session->state->owned().size(); ++c)
      EXPECT_EQ(owners(ranks, c), std::min(replicas, ranks.size())) << "of chunk " << c;
  }
};

INSTANTIATE_TEST_SUITE_P(Shard, Divided, testing::Values("optimizer", "gradients", "parameters"),
                         [](const auto& chosen) { return std::string(chosen.param); });

TEST_P(Divided, HasTheSameBitsAtAnyWorldSizeAndWithAnyNumberOfReplicas) {
  const std::string whole = undisturbed(tiny_spec(data), 1);
  for (int64_t replicas = 1; replicas <= 3; ++replicas) {
    for (int world_size = 1; world_size <= 4; ++world_size)
      EXPECT_EQ(undisturbed(divided(replicas), world_size), whole) << world_size << " ranks, " << replicas << " replicas";
  }
}

TEST_P(Divided, HasTheSameBitsWithEightRanksAndFourLayers) {
  auto whole = tiny_spec(data);
  whole.n_layer = 4;
  whole.dtype = "bfloat16";
  whole.wire_dtype = "int16";
  whole.global_batch_size = 9 * whole.batch_size;
  whole.total_steps = 6;
  whole.warmup_steps = 2;
  const std::string hash = undisturbed(whole, 1);
  for (int64_t replicas = 1; replicas <= 3; ++replicas) {
    auto spec = whole;
    spec.shard = GetParam();
    spec.replicas = replicas;
    EXPECT_EQ(undisturbed(spec, 8), hash) << replicas << " replicas";
  }
}

TEST_P(Divided, HasTheSameBitsInOtherTypesAndOnOtherWires) {
  for (const auto& [dtype, wire] : {std::pair{"bfloat16", "int16"}, {"float16", "int32"}, {"float32", "int16"}}) {
    auto whole = tiny_spec(data);
    whole.n_layer = 3;
    whole.eval_every = 6;
    whole.eval_microbatches = 5;
    whole.dtype = dtype;
    whole.wire_dtype = wire;
    const std::string hash = undisturbed(whole, 1);
    for (const int64_t replicas : {1, 2}) {
      auto spec = whole;
      spec.shard = GetParam();
      spec.replicas = replicas;
      for (const int world_size : {2, 3, 4}) EXPECT_EQ(undisturbed(spec, world_size), hash) << dtype << ", " << wire;
    }
  }
}

// Non-owners have copies of 16 bits alone: a newcomer takes its copies, and the masters of what it is to own.
TEST_P(Divided, In16BitsGoesOnThroughJoinsLeavesLossesAndCheckpoints) {
  for (const char* dtype : {"bfloat16", "float16"}) {
    auto whole = tiny_spec(data), spec = divided(2);
    whole.dtype = spec.dtype = dtype;
    const auto in_a_folder_of_its_own = [&](const char* run) {
      auto own = spec;
      own.checkpoint_store = data.path(std::string(dtype) + run);
      return own;
    };
    whole.checkpoint_store = data.path(dtype);
    const std::string hash = undisturbed(whole, 1);
    EXPECT_EQ(with_a_rank_lost(in_a_folder_of_its_own("lost"), 7), hash);
    const auto written = in_a_folder_of_its_own("written");
    Ranks ranks(written, service, 3);
    ranks.on_commit = [](TestRank& rank, size_t, int64_t step) {
      if (step == 5) rank.requests.yield = true;
    };
    ranks.run(Ranks::initial());
    ranks.add();
    ranks.on_commit = [](TestRank& rank, size_t number, int64_t step) {
      if (step != 10) return;
      rank.requests.leaving = number == 0;
      rank.requests.yield = true;
    };
    ranks.run(Ranks::memory(ranks[0].session->state->step));
    ranks.remove(0);
    ranks.on_commit = tamper;
    run_to_end(ranks, Ranks::memory(ranks[0].session->state->step));
    expect_owners(ranks, 2);
    EXPECT_EQ(ranks.hash(), hash);
    Ranks resumed(in_a_folder_of_its_own("resumed"), service,
                  3);  // the checkpoint that rank 0 wrote at the end of the run before
    resumed.on_commit = tamper;
    run_to_end(resumed, Ranks::checkpoint(written, 20));
    EXPECT_EQ(resumed.hash(), hash);
  }
}

TEST_P(Divided, OwnersAreAsManyAsReplicasAndTheirMomentsAreAllThereAre) {
  Ranks ranks(divided(2), service, 4);
  run_to_end(ranks, Ranks::initial());
  expect_owners(ranks, 2);
  size_t here = 0;
  for (const model::StatePiece& piece : ranks[0].session->state->pieces()) here += piece.data != nullptr ? piece.bytes : 0;
  const auto parameters = static_cast<size_t>(ranks[0].session->model->table().total) * sizeof(float);
  EXPECT_LT(here, parameters * 5 / 2) << "all parameters, and of twice as many moments about half";
}

TEST_P(Divided, GoesOnWhenOneJoinsAndOneLeaves) {
  const std::string whole = undisturbed(tiny_spec(data), 1);
  Ranks ranks(divided(2), service);
  ranks.add();
  ranks.add();
  ranks.on_commit = [](TestRank& rank, size_t, int64_t step) {
    if (step == 5) rank.requests.yield = true;
  };
  for (const RunStop& stop : ranks.run(Ranks::initial())) EXPECT_EQ(stop.why, RunStop::Why::kYielded) << stop.reason;
  ranks.add();  // has no state
  ranks.add();
  ranks.on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (step != 10) return;
    rank.requests.leaving = number == 0;
    rank.requests.yield = true;
  };
  const int64_t yielded = ranks[0].session->state->step;
  for (const RunStop& stop : ranks.run(Ranks::memory(yielded))) EXPECT_EQ(stop.why, RunStop::Why::kYielded) << stop.reason;
  EXPECT_EQ(ranks.agreements()[0].receivers, 2);
  const int64_t left = ranks[1].session->state->step;
  ranks.remove(0);
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(left));
  expect_owners(ranks, 2);
  EXPECT_EQ(ranks.hash(), whole);
}

TEST_P(Divided, ThoseThatLeaveHandOverWhatNobodyElseHas) {
  const std::string whole = undisturbed(tiny_spec(data), 1);
  Ranks ranks(divided(1), service, 4);
  ranks.on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (step != 6) return;
    rank.requests.released = number == 2;  // by the service; rank 3 was told to end
    rank.requests.leaving = number == 3;
    rank.requests.yield = true;
  };
  for (const RunStop& stop : ranks.run(Ranks::initial())) EXPECT_EQ(stop.why, RunStop::Why::kYielded) << stop.reason;
  ranks.remove(3);
  ranks.remove(2);
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(ranks[0].session->state->step));
  EXPECT_EQ(ranks.agreements()[0].how, StateAgreement::How::kNothing) << "they had it before";
  EXPECT_EQ(ranks.hash(), whole);
}

TEST_P(Divided, LosesNothingWithARankInTheMiddleOfAStep) {
  const std::string whole = undisturbed(tiny_spec(data), 1);
  EXPECT_EQ(with_a_rank_lost(divided(2), 7), whole);
}

// The state that a rank held before a step, for one that has told its part of the norm and not heard the others'.
struct Held {
  std::vector<std::vector<std::byte>> pieces;
  explicit Held(model::TrainState& state) {
    for (const model::StatePiece& piece : state.pieces()) {
      const bool here = piece.data != nullptr;
      pieces.emplace_back(here ? piece.data : nullptr, here ? piece.data + piece.bytes : nullptr);
    }
  }
  void put_back(Session& session) const {
    const auto here = session.state->pieces();
    for (size_t i = 0; i < here.size(); ++i) std::ranges::copy(pieces[i], here[i].data);
    session.state->bytes_changed();
    session.state->step -= 1;
    session.applied_step = -1;
    session.summed.norm = 0;
  }
};

// By which rank of three is ahead. With one owner of each chunk nobody else could give a rank that is behind what it lacks.
TEST_P(Divided, RanksThatMissedTheEndOfAStepApplyItToWhatTheyOwn) {
  const std::string whole = undisturbed(tiny_spec(data), 1);
  for (const int64_t replicas : {1, 2}) {
    for (const std::vector<size_t>& ahead : {std::vector<size_t>{0}, {1, 2}}) {
      Ranks ranks(divided(replicas), service, 3);
      std::vector<std::unique_ptr<Held>> before(3);
      ranks.on_commit = [&](TestRank& rank, size_t number, int64_t step) {
        if (step != 5) return;
        before[number] = std::make_unique<Held>(*rank.session->state);
        rank.requests.yield = true;
      };
      ranks.run(Ranks::initial());
      for (size_t number = 0; number < 3; ++number) {
        ASSERT_EQ(ranks[number].session->state->step, 6);
        if (std::ranges::find(ahead, number) == ahead.end()) before[number]->put_back(*ranks[number].session);
      }
      ranks.on_commit = tamper;
      run_to_end(ranks, Ranks::memory(6));
      EXPECT_NE(ranks.agreements()[ahead[0]].how, StateAgreement::How::kNothing);
      EXPECT_EQ(ranks.hash(), whole);
    }
  }
}

// After a loss and a join owners lack chunks, which come to them one by one, a window after each step.
TEST_P(Divided, OwnersTakeWhatTheyLackWhileTrainingGoesOn) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    auto whole = tiny_spec(data), spec = divided(2);
    whole.dtype = spec.dtype = dtype;
    spec.checkpoint_store = data.path(std::string("own-") + dtype);
    const std::string hash = undisturbed(whole, 1);
    Ranks ranks(spec, service, 4);
    ranks.filling = {1, false};
    ranks.on_commit = [](TestRank& rank, size_t number, int64_t step) {
      if (number == 1 && step == 4) rank.interrupt.raise("as if it were killed");
    };
    ranks.run(Ranks::initial());
    ranks.remove(1);
    std::atomic<bool> lacked = false;
    ranks.on_commit = [&lacked](TestRank& rank, size_t number, int64_t step) {
      if (!rank.session->ownership.lacks_nothing()) lacked = true;
      if (number == 0 && step == 8) rank.interrupt.raise("a newcomer is there");
    };
    ranks.run(Ranks::memory(held_step(ranks)));
    EXPECT_TRUE(lacked);
    ranks.add();
    ranks.on_commit = tamper;
    run_to_end(ranks, Ranks::memory(held_step(ranks)));
    EXPECT_EQ(ranks.hash(), hash) << dtype;
    EXPECT_TRUE(ranks[3].session->ownership.lacks_nothing());
    expect_owners(ranks, 2);
  }
}

// Until its second copy is there, a chunk is on one rank alone.
TEST_P(Divided, ASecondLossBeforeThePartsAreThereIsSaidAndTheJobGoesBack) {
  const std::string whole = undisturbed(tiny_spec(data), 1);
  auto spec = divided(2);
  spec.checkpoint_every = 4;
  spec.checkpoint_store = data.path("own");
  Ranks ranks(spec, service, 4);
  ranks.filling = {1, false};
  const auto record = lose_a_rank_after_a_checkpoint(ranks);
  ranks.on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (number == 1 && step == 7) rank.interrupt.raise("as if it were killed, too");
  };
  ranks.run(Ranks::memory(held_step(ranks)));
  ranks.remove(1);
  for (const RunStop& stop : ranks.run(Ranks::memory(held_step(ranks))))
    EXPECT_EQ(stop.fault_kind, "state_lost") << stop.reason;
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::checkpoint(spec, record["step"], record["state_hash"]));
  EXPECT_EQ(ranks.hash(), whole);
}

// It has the step and what it computes with, and nothing of its own yet: that is no state.
TEST_P(Divided, ANewcomerThatIsLeftAloneBeforeItsPartsAreThereSaysSo) {
  Ranks ranks(divided(2), service, 2);
  const auto interrupt_after = [&ranks](int64_t last) {
    return [&ranks, last](TestRank&, size_t number, int64_t step) {
      if (number == 0 && step == last) ranks.interrupt_all("the generation ends");
    };
  };
  ranks.on_commit = interrupt_after(4);
  ranks.run(Ranks::initial());
  ranks.add();
  ranks.filling = {1, false};
  ranks.on_commit = interrupt_after(5);
  ranks.run(Ranks::memory(ranks[0].session->held_step()));
  const int64_t held = ranks[2].session->held_step();
  EXPECT_GE(held, 4);
  EXPECT_EQ(std::ranges::count(ranks[2].session->sound, true), 0);
  ranks.remove(0);
  ranks.remove(0);
  const auto stops = ranks.run(Ranks::memory(held));
  EXPECT_EQ(stops[0].fault_kind, "state_lost") << stops[0].reason;
  EXPECT_EQ(ranks[0].session->held_step(), -1);
}

TEST_P(Divided, GoesBackToTheCheckpointWhenAllOwnersOfAChunkAreGone) {
  const std::string whole = undisturbed(tiny_spec(data), 1);
  auto spec = divided(1);
  spec.checkpoint_every = 4;
  spec.checkpoint_store = data.path("own");
  Ranks ranks(spec, service, 3);
  const auto record = lose_a_rank_after_a_checkpoint(ranks);
  ranks.on_commit = tamper;
  for (const RunStop& stop : ranks.run(Ranks::memory(held_step(ranks)))) {
    EXPECT_EQ(stop.fault_kind, "state_lost") << stop.reason;
    EXPECT_THAT(stop.reason, testing::HasSubstr("chunks of the state any more"));
  }
  for (size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks[rank].session->held_step(), -1);
  run_to_end(ranks, Ranks::checkpoint(spec, record["step"], record["state_hash"]));
  EXPECT_EQ(ranks.hash(), whole);
}

TEST_P(Divided, ReadsCheckpointsOfAWholeStateAndTheOtherWayRound) {
  auto spec = tiny_spec(data);
  spec.checkpoint_every = 4;
  const std::string whole = undisturbed(spec, 1);
  for (const char* shard : {"none", GetParam()}) {
    spec.shard = shard;
    Ranks writers(spec, service);
    const auto source = checkpoint_after(9, spec, writers);
    spec.shard = spec.shard == "none" ? GetParam() : "none";
    Ranks others(spec, service, 3);
    run_to_end(others, source);
    EXPECT_EQ(others.hash(), whole) << "written with shard " << shard;
  }
}

TEST_P(Divided, FindsAPieceThatOneOfItsOwnersHasOtherwise) {
  const std::string whole = undisturbed(tiny_spec(data), 1);
  auto spec = divided(3);
  spec.hash_every = 1;
  spec.checkpoint_store = data.path("own");
  Ranks ranks(spec, service, 3);
  ranks.on_commit = [](TestRank& rank, size_t number, int64_t step) {
    if (number != 1 || step != 5) return;
    auto piece = rank.session->state->pieces()[rank.session->sound.size() + 3];
    piece.data[2] ^= std::byte{64};
  };
  const auto stops = ranks.run(Ranks::initial());
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(stops[rank].fault_kind, "state_diverged") << stops[rank].reason;
    EXPECT_EQ(stops[rank].suspect_rank, 1);
    EXPECT_EQ(ranks[rank].session->held_step(), rank == 1 ? -1 : 5);
  }
  ranks.on_commit = tamper;
  run_to_end(ranks, Ranks::memory(5));
  EXPECT_EQ(ranks.hash(), whole);
}

}  // namespace
}  // namespace holdfast::worker
