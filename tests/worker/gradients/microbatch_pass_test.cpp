// A microbatch's pass drops by its place in the job and by the job's seed, whoever computes it.
#include "worker/gradients/microbatch_pass.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/worker/step/ranks_of_threads.h"

namespace holdfast::worker {
namespace {

TEST(PassOfAMicrobatch, DropsByItsStepItsMicrobatchAndTheJobsSeed) {
  const TestData data;
  auto spec = tiny_spec(data);
  spec.dropout = 0.3;
  const auto session = prepare_session("j1", spec, {}, test_ops);
  ASSERT_TRUE(session) << session.error();
  Session& job = **session;
  ASSERT_TRUE(reset_to_initial(job));
  MicrobatchPass pass({.ops = *job.ops,
                       .model = *job.model,
                       .data = job.training,
                       .wire = *wire_type_of(spec.reduction, spec.wire_dtype),
                       .dealt_units = spec.dealt_units()});
  const auto seed = static_cast<uint64_t>(spec.seed);
  model::Gpt2 direct(job.model->config(), *job.ops, spec.batch_size);
  direct.initialize(seed);
  direct.set_recipe({.dropout = spec.dropout, .seed = seed});
  const auto gradients_of = [](model::Gpt2& model) {
    return std::vector<float>(model.gradients(), model.gradients() + model.table().total);
  };
  std::vector<int32_t> inputs(static_cast<size_t>(job.training.shape().tokens())), targets(inputs.size());
  constexpr model::MicrobatchPlace kPlaces[] = {{0, 0}, {3, 2}, {3, 5}, {4, 2}};
  for (const model::MicrobatchPlace& place : kPlaces) {
    const Computed computed = pass.run(place.step, place.microbatch, nullptr);
    job.training.fill(place.step, place.microbatch, inputs, targets);
    const double loss = direct.train_microbatch(inputs, targets, nullptr, model::TiedGradient::kApart, place);
    EXPECT_EQ(computed.loss, loss) << place.step << ", " << place.microbatch;
    EXPECT_EQ(gradients_of(*job.model), gradients_of(direct)) << place.step << ", " << place.microbatch;
  }
}

}  // namespace
}  // namespace holdfast::worker
