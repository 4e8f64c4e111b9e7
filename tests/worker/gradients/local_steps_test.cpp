// Jobs that synchronise rarely: replicas are what is dealt, so all that holds of microbatches holds of them.
#include "worker/gradients/local_steps.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/worker/step/same_bits_fixture.h"

namespace holdfast::worker {
namespace {

class LocalStepsOfAJob : public SameBits {
 protected:
  LocalStepsOfAJob() {
    spec = tiny_spec(data);
    spec.nodes = 3;
    spec.global_batch_size = 12;  // 6 microbatches in an inner step, 2 of each replica
    spec.sync_every = 4;
    spec.total_steps = 7;
    spec.warmup_steps = 1;
  }
  rendezvous::JobSpec spec;
};

TEST_F(LocalStepsOfAJob, HaveTheSameBitsAtAnyWorldSize) {
  for (const char* wire : {"int32", "int16"}) {
    spec.wire_dtype = wire;
    const std::string one = undisturbed(spec, 1);
    for (int world_size = 2; world_size <= 3; ++world_size)
      EXPECT_EQ(undisturbed(spec, world_size), one) << world_size << " ranks, " << wire;
  }
}

TEST_F(LocalStepsOfAJob, DependOnHowManyReplicasThereAre) {
  const std::string three = undisturbed(spec, 1);
  spec.nodes = 2;
  EXPECT_NE(undisturbed(spec, 1), three);
}

TEST_F(LocalStepsOfAJob, SurviveARankThatIsLostInTheMiddle) {
  const std::string expected = undisturbed(spec, 1);
  EXPECT_EQ(with_a_rank_lost(spec, 3), expected);
  EXPECT_NE(events("microbatches_kept").front().find("2 of 3 replicas' local steps are kept"), std::string::npos);
}

TEST_F(LocalStepsOfAJob, LearnAboutAsMuchAsSoManyPlainSteps) {
  const auto losses = [&] {
    const size_t begin = service.received("/progress").size();
    undisturbed(spec, 2);
    std::vector<double> all;
    const auto received = service.received("/progress");
    for (size_t i = begin; i < received.size(); ++i) {
      for (const auto& point : received[i]["points"]) all.push_back(point["loss"]);
    }
    return all;
  };
  spec.total_steps = 20;
  const auto local = losses();
  ASSERT_EQ(local.size(), 20U) << "one point a step of the job, whatever is in it";
  spec.sync_every = 1;
  spec.total_steps = 80;
  spec.warmup_steps = 4;
  const auto plain = losses();
  EXPECT_GT(local.front() - local.back(), 0.5 * (plain.front() - plain.back()))
      << "plain steps went from " << plain.front() << " to " << plain.back() << ", local ones from " << local.front() << " to "
      << local.back();
}

// The same with dropout, which hangs on the microbatch's place in the job.
TEST_F(LocalStepsOfAJob, OneStepOfOneReplicaIsAnOuterStepOverAnAdamWStep) {
  for (const double dropout : {0.0, 0.3}) {
    SCOPED_TRACE(dropout);
    spec.dropout = dropout;
    TestRank rank(spec, service.url(), "w");
    reset_to_initial(*rank.session);
    model::Gpt2& model = *rank.session->model;
    const auto total = static_cast<size_t>(model.table().total);
    const std::vector<float> before(model.parameters(), model.parameters() + total);
    const model::OptimizerConfig adamw = optimizer_config(spec);
    LocalSteps one(*rank.session->ops, model, rank.session->training, {adamw, 1, 1});
    const auto outcome = one.run(0, 2);
    EXPECT_TRUE(outcome.finite);
    EXPECT_EQ(std::vector<float>(model.parameters(), model.parameters() + total), before) << "they are as they were";
    const std::vector<float> difference(model.gradients(), model.gradients() + total);

    const model::TrainingData& training = rank.session->training;
    std::vector<int32_t> inputs(static_cast<size_t>(training.shape().tokens())), targets(inputs.size());
    training.fill(0, 2, inputs, targets);
    model.set_recipe({.dropout = dropout, .seed = static_cast<uint64_t>(spec.seed)});
    EXPECT_EQ(outcome.loss, model.train_microbatch(inputs, targets, nullptr, model::TiedGradient::kTogether, {0, 2}));
    EXPECT_EQ(outcome.digest, model::microbatch_digest(0, 2, inputs, targets));
    rank.session->state->apply(adamw, model.gradients());
    for (size_t i = 0; i < total; ++i) ASSERT_EQ(difference[i], before[i] - model.parameters()[i]) << i;
  }
}

TEST_F(LocalStepsOfAJob, DropByTheStepOfTheJobAndTheMicrobatchInIt) {
  spec.dropout = 0.3;
  TestRank rank(spec, service.url(), "w");
  reset_to_initial(*rank.session);
  model::Gpt2& model = *rank.session->model;
  const model::TrainingData& training = rank.session->training;
  LocalSteps one(*rank.session->ops, model, training, {optimizer_config(spec), 1, 2});
  const auto outcome = one.run(3, 1);  // microbatches 2 and 3, from the same parameters
  model.set_recipe({.dropout = spec.dropout, .seed = static_cast<uint64_t>(spec.seed)});
  std::vector<int32_t> inputs(static_cast<size_t>(training.shape().tokens())), targets(inputs.size());
  double loss = 0;
  for (const int64_t microbatch : {2, 3}) {
    training.fill(3, microbatch, inputs, targets);
    loss += model.train_microbatch(inputs, targets, nullptr, model::TiedGradient::kTogether, {3, microbatch});
  }
  EXPECT_EQ(outcome.loss, loss / 2);
}

TEST_F(LocalStepsOfAJob, ThatAreInterruptedLeaveTheParametersAsTheyWere) {
  TestRank rank(spec, service.url(), "w");
  reset_to_initial(*rank.session);
  model::Gpt2& model = *rank.session->model;
  const auto total = static_cast<size_t>(model.table().total);
  const std::vector<float> before(model.parameters(), model.parameters() + total);
  LocalSteps steps(*rank.session->ops, model, rank.session->training, {optimizer_config(spec), 4, 2});
  std::atomic<bool> stop = false;
  model.set_interrupt(&stop);
  steps.run(0, 0);  // uninterrupted, it goes on
  stop = true;
  EXPECT_THROW(steps.run(0, 0), model::Interrupted);
  model.set_interrupt(nullptr);
  EXPECT_EQ(std::vector<float>(model.parameters(), model.parameters() + total), before);
}

}  // namespace
}  // namespace holdfast::worker
