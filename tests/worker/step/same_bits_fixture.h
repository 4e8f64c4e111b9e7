// A job run to its end by ranks of threads, and what its service received.
#pragma once

#include <algorithm>

#include "tests/worker/step/ranks_of_threads.h"

namespace holdfast::worker {

class SameBits : public ::testing::Test {
 protected:
  // Runs the job to its end and answers for the service: when the job is finished, everybody is told to be idle.
  std::vector<RunStop> run_to_end(Ranks& ranks, const rendezvous::StateSource& source) {
    const size_t before = finished();
    std::jthread service_thread([&] {
      EXPECT_TRUE(service.wait_for("/progress", [&](const auto& all) { return count_finished(all) > before; }));
      ranks.interrupt_all("idle");
    });
    return ranks.run(source);
  }
  std::string undisturbed(const rendezvous::JobSpec& spec, int world_size) {
    Ranks ranks(spec, service);
    for (int i = 0; i < world_size; ++i) ranks.add();
    ranks.on_commit = tamper;
    run_to_end(ranks, Ranks::initial());
    EXPECT_EQ(ranks[0].session->state->step, spec.total_steps);
    return ranks.hash();
  }
  void expect_with_more_ranks(const rendezvous::JobSpec& spec, const std::string& hash) {
    for (int world_size = 2; world_size <= 4; ++world_size)
      EXPECT_EQ(undisturbed(spec, world_size), hash) << world_size << " ranks";
  }
  // The same job with a whole state, and with one that is divided among three ranks in each way, which ends with this hash.
  std::vector<rendezvous::JobSpec> expect_divided(const rendezvous::JobSpec& spec, const std::string& hash) {
    std::vector<rendezvous::JobSpec> all{spec};
    for (const char* shard : {"optimizer", "gradients", "parameters"}) {
      all.push_back(spec);
      all.back().shard = shard;
      EXPECT_EQ(undisturbed(all.back(), 3), hash) << shard;
    }
    return all;
  }
  // Of three ranks one is cut off after this step, while the others compute on; they go on without it.
  std::string with_a_rank_lost(const rendezvous::JobSpec& spec, int64_t after) {
    Ranks ranks(spec, service);
    for (int i = 0; i < 3; ++i) ranks.add();
    ranks.on_commit = [after](TestRank& rank, size_t number, int64_t step) {
      if (number == 1 && step == after) rank.interrupt.raise("as if it were killed");
    };
    ranks.run(Ranks::initial());
    ranks.remove(1);
    ranks.on_commit = tamper;
    run_to_end(ranks, Ranks::memory(std::max(ranks[0].session->state->step, ranks[1].session->state->step)));
    return ranks.hash();
  }
  // Three ranks whose generation broke between a step's reduction and its confirmation: `ahead` of them have applied it.
  void run_apart(Ranks& ranks, const rendezvous::JobSpec& spec, int64_t step, const std::vector<size_t>& ahead) {
    for (int i = 0; i < 3; ++i) ranks.add();
    run_to_step(ranks, step);
    ASSERT_EQ(ranks[0].session->state->step, step);
    for (size_t number = 0; number < 3; ++number) {
      if (std::ranges::find(ahead, number) != ahead.end()) continue;
      Ranks alone(spec, service);  // the rank that has the state before it
      alone.add();
      run_to_step(alone, step - 1);
      ASSERT_EQ(alone[0].session->state->step, step - 1);
      std::swap(ranks[number].session, alone[0].session);
      ranks[number].session->model->set_interrupt(ranks[number].interrupt.flag());
    }
  }
  static void run_to_step(Ranks& ranks, int64_t step) {
    ranks.on_commit = [step](TestRank& rank, size_t, int64_t committed) {
      if (committed + 1 == step) rank.requests.yield = true;
    };
    ranks.run(Ranks::initial());
  }
  // The state that `one`, a rank alone, has written when it has done so many steps.
  rendezvous::StateSource checkpoint_after(int64_t steps, const rendezvous::JobSpec& spec, Ranks& one) {
    one.add();
    one.on_commit = [this, steps](TestRank& rank, size_t number, int64_t step) {
      if (tamper) tamper(rank, number, step);
      if (step + 1 == steps) rank.requests.yield = rank.requests.checkpoint = true;
    };
    one.run(Ranks::initial());
    const auto records = service.received("/checkpoints");
    if (records.empty() || records.back()["step"] != steps) {
      ADD_FAILURE() << "no checkpoint of " << steps << " steps was recorded";
      return Ranks::initial();
    }
    return Ranks::checkpoint(spec, steps, records.back()["state_hash"]);
  }
  // One rank writes a checkpoint in the middle of the job, and three others go on from it.
  std::string resumed_by_three(rendezvous::JobSpec spec) {
    spec.checkpoint_every = 6;
    rendezvous::StateSource source;
    {
      Ranks first(spec, service);
      source = checkpoint_after(10, spec, first);
    }
    Ranks ranks(spec, service);
    for (int i = 0; i < 3; ++i) ranks.add();
    run_to_end(ranks, source);
    return ranks.hash();
  }
  size_t finished() { return count_finished(service.received("/progress")); }
  static size_t count_finished(const FakeService::Received& all) {
    return static_cast<size_t>(std::count_if(all.begin(), all.end(), [](const auto& p) { return p["finished"] == true; }));
  }
  // The messages of events of this kind, once there are as many; "" for each that does not come, which is a failure.
  std::vector<std::string> events(const std::string& kind, size_t count = 1) {
    const auto of_kind = [&](const FakeService::Received& all) {
      std::vector<std::string> messages;
      for (const auto& event : all) {
        if (event["kind"] == kind) messages.push_back(event["message"]);
      }
      return messages;
    };
    EXPECT_TRUE(service.wait_for("/events", [&](const auto& all) { return of_kind(all).size() >= count; })) << kind;
    auto messages = of_kind(service.received("/events"));
    messages.resize(std::max(messages.size(), count));
    return messages;
  }

  TestData data;
  FakeService service;
  std::function<void(TestRank&, size_t, int64_t)> tamper = [](TestRank&, size_t, int64_t) {};
};

}  // namespace holdfast::worker
