// The training state: schedule, clipping, AdamW, the list of tensors, and the hash over it.
#include "model/state/train_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "tests/model/small_model.h"

namespace holdfast::model {
namespace {

using testing::DoubleEq, testing::Pointwise;

OptimizerConfig usual() {
  return {.learning_rate = 1e-2,
          .min_lr = 1e-3,
          .warmup_steps = 4,
          .total_steps = 20,
          .weight_decay = 0.1,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .epsilon = 1e-8,
          .grad_clip = 1.0};
}

TEST(LearningRate, WarmsUpThenFollowsTheCosineThenStays) {
  const OptimizerConfig config = usual();
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 0), 1e-2 / 4);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 3), 1e-2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 4), 1e-2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 12), (1e-2 + 1e-3) / 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 20), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1000), 1e-3);
  for (int64_t step = 4; step < 20; ++step) {
    EXPECT_GT(learning_rate_at(config, step), learning_rate_at(config, step + 1));
    const double cosine = 1e-3 + 0.5 * 9e-3 * (1 + std::cos(std::numbers::pi * static_cast<double>(step - 4) / 16));
    EXPECT_NEAR(learning_rate_at(config, step), cosine, 1e-16);
  }
}

TEST(LearningRate, NeedsNoWarmUp) {
  OptimizerConfig config = usual();
  config.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 0), 1e-2);
  config.total_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 0), 1e-3);
}

TEST(LearningRate, FallsAsItsScheduleSays) {
  OptimizerConfig config = usual();
  const auto rates = [&](const std::vector<int64_t>& steps) {
    std::vector<double> all;
    for (const int64_t step : steps) all.push_back(learning_rate_at(config, step));
    return all;
  };
  config.schedule = Schedule::kLinear;
  EXPECT_THAT(rates({0, 4, 8, 12, 19, 20, 50}), Pointwise(DoubleEq(), {2.5e-3, 1e-2, 7.75e-3, 5.5e-3, 1.5625e-3, 1e-3, 1e-3}));
  config.decay_steps = 8;
  EXPECT_THAT(rates({4, 8, 12, 19}), Pointwise(DoubleEq(), {1e-2, 5.5e-3, 1e-3, 1e-3}));
  config.schedule = Schedule::kWarmupStableDecay;
  EXPECT_THAT(rates({3, 4, 12, 16, 20}), Pointwise(DoubleEq(), {1e-2, 1e-2, 1e-2, 5.5e-3, 1e-3}));
  config.decay_steps = 0;
  EXPECT_THAT(rates({17, 18, 19, 20}), Pointwise(DoubleEq(), {1e-2, 1e-2, 5.5e-3, 1e-3}));
  config.schedule = Schedule::kConstant;
  EXPECT_THAT(rates({0, 4, 19, 20, 50}), Pointwise(DoubleEq(), {2.5e-3, 1e-2, 1e-2, 1e-2, 1e-2}));
}

// A run of 20 steps that had ended at min_lr, and is prolonged by 20.
TEST(LearningRate, GoesOnFromTheEndOfAnEarlierRunWithoutAJump) {
  OptimizerConfig config = usual();
  const double before = learning_rate_at(config, 20);
  config.total_steps = 40;
  EXPECT_GT(learning_rate_at(config, 20), 3 * before) << "that is the jump";
  config.schedule_start = 20;
  EXPECT_EQ(learning_rate_at(config, 19), before);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 20), before + (1e-2 - before) / 4);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 24), 1e-2);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 32), 5.5e-3);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 40), 1e-3);
}

// A model with its state; a test gives it gradients as the reduction would.
struct Trained {
  SmallModel model;
  TrainState state;
  DeviceBuffer gradients;

  Trained() : model(ref_float32()), state(model.gpt2, *model.ops), gradients(*model.ops, bytes()) { model.gpt2.initialize(1); }
  size_t bytes() const { return static_cast<size_t>(model.gpt2.table().total) * sizeof(float); }

  double apply(const OptimizerConfig& config, const std::vector<float>& values) {
    model.ops->copy_to_device(gradients.data<float>(), values.data(), bytes());
    return state.apply(config, gradients.data<float>());
  }
  std::vector<float> parameters() { return read_floats(*model.ops, model.gpt2.parameters(), model.gpt2.table().total); }
  std::vector<float> random_gradients(uint64_t seed) {
    std::vector<float> values(static_cast<size_t>(model.gpt2.table().total));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(0.01 * normal_at(seed, 5, i));
    return values;
  }
};

TEST(TrainStateLent, IsNotChangedNorGivenOutBeforeItsReaderIsDone) {
  Trained trained;
  int waited = 0;
  const auto lend = [&] { trained.state.lend([&] { ++waited; }); };
  const auto waits = [&](const auto& changes) {
    const int before = waited;
    lend();
    changes();
    return waited == before + 1;
  };
  const std::vector<float> gradient = trained.random_gradients(1);
  EXPECT_TRUE(waits([&] { trained.apply(usual(), gradient); }));
  EXPECT_TRUE(waits([&] { trained.state.leave_out(); }));
  EXPECT_TRUE(waits([&] { trained.state.apply_outer({0.7F, 0.9F}, trained.gradients.data<float>()); }));
  EXPECT_TRUE(waits([&] { trained.state.tensors(); }));
  EXPECT_TRUE(waits([&] { trained.state.pieces(); }));
  EXPECT_TRUE(waits([&] { trained.state.lend(nullptr); })) << "one at a time";
  trained.state.tensors();
  EXPECT_EQ(waited, 6) << "once each";
}

double norm_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

TEST(TrainState, ReturnsTheGradientNormBeforeClipping) {
  Trained trained;
  const std::vector<float> gradients = trained.random_gradients(1);
  EXPECT_NEAR(trained.apply(usual(), gradients), norm_of(gradients), 1e-9);
  EXPECT_EQ(trained.state.step, 1);
}

TEST(TrainState, ClipsTheGlobalNormAsTorchDoes) {
  // Gradients of norm 10 under clip 1 must have the effect of gradients scaled by 1 / (10 + 1e-6) without a clip.
  Trained clipped, scaled;
  std::vector<float> gradients = clipped.random_gradients(1);
  const double norm = norm_of(gradients);
  for (float& gradient : gradients) gradient = static_cast<float>(gradient * 10 / norm);
  std::vector<float> smaller = gradients;
  for (float& gradient : smaller) gradient *= static_cast<float>(1 / (10 + 1e-6));
  OptimizerConfig no_clip = usual();
  no_clip.grad_clip = 0;
  clipped.apply(usual(), gradients);
  scaled.apply(no_clip, smaller);
  const std::vector<float> one = clipped.parameters(), other = scaled.parameters();
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], other[i], 1e-6);
}

TEST(TrainState, LeavesShortGradientsUnclipped) {
  Trained with, without;
  std::vector<float> gradients = with.random_gradients(1);
  const double norm = norm_of(gradients);
  for (float& gradient : gradients) gradient = static_cast<float>(gradient * 0.5 / norm);
  OptimizerConfig no_clip = usual();
  no_clip.grad_clip = 0;
  with.apply(usual(), gradients);
  without.apply(no_clip, gradients);
  EXPECT_EQ(with.parameters(), without.parameters());
}

TEST(TrainState, DecaysOnlyMatrices) {
  Trained trained;
  const std::vector<float> before = trained.parameters();
  trained.apply(usual(), std::vector<float>(before.size(), 0.0F));
  const std::vector<float> after = trained.parameters();
  const double kept = 1 - learning_rate_at(usual(), 0) * 0.1;
  for (const Parameter& parameter : trained.model.gpt2.table().entries) {
    for (int64_t i = parameter.offset; i < parameter.offset + parameter.count; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_NEAR(after[at], before[at] * (parameter.decay ? kept : 1.0), 1e-8) << parameter.name;
    }
  }
}

TEST(TrainState, FollowsAdamWInDoublePrecision) {
  Trained trained;
  OptimizerConfig config = usual();
  const std::vector<float> start = trained.parameters();
  const size_t at = static_cast<size_t>(trained.model.gpt2.table()["h.0.mlp.c_fc.weight"].offset) + 3;
  double x = start[at], m = 0, v = 0;
  for (int64_t step = 0; step < 10; ++step) {
    const std::vector<float> gradients = trained.random_gradients(static_cast<uint64_t>(step));
    const double norm = trained.apply(config, gradients);
    const double g = gradients[at] * std::min(1.0, config.grad_clip / (norm + 1e-6));
    const double rate = learning_rate_at(config, step), t = static_cast<double>(step + 1);
    m = config.beta1 * m + (1 - config.beta1) * g;
    v = config.beta2 * v + (1 - config.beta2) * g * g;
    x -= rate * config.weight_decay * x;
    x -= rate * (m / (1 - std::pow(config.beta1, t))) / (std::sqrt(v / (1 - std::pow(config.beta2, t))) + config.epsilon);
  }
  EXPECT_NEAR(trained.parameters()[at], x, 1e-6);
}

TEST(TrainState, AnInfiniteGradientChangesNothing) {
  Trained trained;
  trained.apply(usual(), trained.random_gradients(1));
  const std::string hash = trained.state.hash();
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> gradients = trained.random_gradients(2);
    gradients[gradients.size() / 2] = bad;
    EXPECT_FALSE(std::isfinite(trained.apply(usual(), gradients)));
    EXPECT_EQ(trained.state.step, 1);
    EXPECT_EQ(trained.state.hash(), hash);
  }
}

TEST(TrainState, ListsParametersMomentsAndExponentsInOneOrder) {
  Trained trained;
  const std::vector<StateTensor> tensors = trained.state.tensors();
  const size_t count = trained.model.gpt2.table().entries.size();
  ASSERT_EQ(tensors.size(), 3 * count + 1);
  EXPECT_EQ(tensors[0].name, "wte.weight");
  EXPECT_EQ(tensors[count].name, "exp_avg/wte.weight");
  EXPECT_EQ(tensors[2 * count].name, "exp_avg_sq/wte.weight");
  EXPECT_EQ(tensors[count - 1].name, "ln_f.bias");
  EXPECT_EQ(tensors[2 * count + 1].shape, (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(tensors.back().name, "reduction/exponents");
  EXPECT_EQ(tensors.back().dtype, "int32");
  EXPECT_EQ(tensors.back().shape, (std::vector<int64_t>{static_cast<int64_t>(count)}));
  EXPECT_TRUE(tensors.back().on_host);
  for (const int32_t exponent : trained.state.exponents()) EXPECT_EQ(exponent, TrainState::kUnsetExponent);
}

TEST(TrainState, CopiedThroughItsTensorsItGoesOnWithTheSameBits) {
  Trained source, copy;
  source.apply(usual(), source.random_gradients(1));
  source.apply(usual(), source.random_gradients(2));
  source.state.exponents()[3] = -17;
  const std::vector<StateTensor> from = source.state.tensors(), to = copy.state.tensors();
  for (size_t i = 0; i < from.size(); ++i) std::memcpy(to[i].data, from[i].data, from[i].bytes);
  copy.state.step = source.state.step;
  copy.state.bytes_changed();
  EXPECT_EQ(copy.state.hash(), source.state.hash());
  EXPECT_EQ(copy.state.exponents()[3], -17);

  const Microbatch microbatch = random_microbatch(kSmallConfig, 2, 3);
  EXPECT_EQ(copy.model.gradients(microbatch), source.model.gradients(microbatch));
  source.apply(usual(), source.random_gradients(3));
  copy.apply(usual(), source.random_gradients(3));
  EXPECT_EQ(copy.state.hash(), source.state.hash());
}

std::vector<std::byte> bytes_of(const StatePiece& piece) {
  return {piece.data, piece.data + piece.bytes};  // of ref, whose memory is the host's
}

std::span<std::byte> bytes_of_moments(TrainState& state, size_t chunk) {
  const StatePiece piece = state.pieces()[state.owned().size() + chunk];
  return {piece.data, piece.bytes};
}

// One state that is all here, and one that owns every other chunk, of a job in bfloat16.
struct WholeAndDivided {
  std::unique_ptr<kernels::DeviceOps> ops = kernels::make_ref_ops(kernels::DType::kBFloat16);
  Gpt2 model{kSmallConfig, *ops, 2}, apart{kSmallConfig, *ops, 2, Recompute::kNone, {.masters = Masters::kElsewhere}};
  TrainState whole{model, *ops}, divided{apart, *ops, TrainState::Owns::kNothing};
  std::vector<bool> own = std::vector<bool>(divided.owned().size());

  WholeAndDivided() {
    for (size_t c = 0; c < own.size(); c += 2) own[c] = true;
    divided.own(own);
    EXPECT_TRUE(whole.initialize(SeededValues(kSmallConfig, 3)));
    EXPECT_TRUE(divided.initialize(SeededValues(kSmallConfig, 3)));
  }
  // Of what the divided state owns, parameters and moments are those of the whole one; of the rest it has nothing.
  void expect_alike() {
    const auto all = whole.pieces(), here = divided.pieces();
    ASSERT_EQ(all.size(), here.size());
    for (size_t piece = 0; piece < 3 * own.size(); ++piece) {
      if (own[piece % own.size()]) {
        EXPECT_EQ(bytes_of(here[piece]), bytes_of(all[piece])) << piece;
      } else {
        EXPECT_EQ(here[piece].data, nullptr) << piece;
      }
    }
  }
};

TEST(TrainState, DividedItBeginsWithAllComputeCopiesAndTheParametersOfItsChunks) {
  WholeAndDivided both;
  both.expect_alike();
  EXPECT_EQ(both.apart.parameters(), nullptr);
  EXPECT_EQ(both.apart.memory_use().parameters, 0U);
  const auto copies = both.whole.copies(), here = both.divided.copies();
  for (size_t c = 0; c < copies.size(); ++c) EXPECT_EQ(bytes_of(here[c]), bytes_of(copies[c])) << c;
  const Microbatch microbatch = random_microbatch(kSmallConfig, 2, 5);
  EXPECT_EQ(both.model.train_microbatch(microbatch.tokens, microbatch.targets),
            both.apart.train_microbatch(microbatch.tokens, microbatch.targets));
}

TEST(TrainState, DividedItAppliesAStepToItsChunksAndKeepsThemWhenItOwnsMore) {
  WholeAndDivided both;
  const Microbatch microbatch = random_microbatch(kSmallConfig, 2, 5);
  both.model.train_microbatch(microbatch.tokens, microbatch.targets);
  both.apart.train_microbatch(microbatch.tokens, microbatch.targets);
  const double norm = both.whole.apply(usual(), both.model.gradients());
  both.divided.apply(usual(), Gradient{both.apart.gradients()}, norm);
  both.expect_alike();
  for (size_t c = 0; c < both.own.size(); ++c) {
    if (both.own[c]) both.divided.refresh(c);
    const auto copy = bytes_of(both.whole.copies()[c]), here = bytes_of(both.divided.copies()[c]);
    EXPECT_EQ(here == copy, both.own[c]) << "the others come from their owners: " << c;
  }
  both.divided.own(std::vector<bool>(both.own.size(), true));
  const auto all = both.whole.pieces(), here = both.divided.pieces();
  for (size_t c = 0; c < both.own.size(); c += 2) EXPECT_EQ(bytes_of(here[c]), bytes_of(all[c])) << c;
  both.divided.own(both.own);
  both.expect_alike();
}

TEST(TrainState, MomentsOfAChunkThatItLetGoAndOwnsAgainBeginAtZero) {
  WholeAndDivided both;
  const size_t chunks = both.own.size();
  const std::vector<bool> all(chunks, true);
  both.divided.own(all);
  for (size_t c = 1; c < chunks; c += 2) std::ranges::fill(bytes_of_moments(both.divided, c), std::byte{7});
  both.divided.own(both.own);
  both.divided.own(all);
  for (size_t c = 1; c < chunks; c += 2) EXPECT_THAT(bytes_of_moments(both.divided, c), ::testing::Each(std::byte{0})) << c;
}

TEST(ReservedMemory, IsTakenAndGivenBackByThePage) {
  const auto page = static_cast<size_t>(::getpagesize());
  const auto ops = kernels::make_ref_ops(kernels::DType::kFloat32);
  DeviceBuffer buffer(*ops, 8 * page, DeviceBuffer::Memory::kReserved);
  auto* const bytes = buffer.data<unsigned char>();
  const auto resident = [&] {
    std::array<unsigned char, 8> pages{};
    EXPECT_EQ(::mincore(bytes, 8 * page, pages.data()), 0);
    return std::ranges::count_if(pages, [](unsigned char flags) { return (flags & 1) != 0; });
  };
  EXPECT_EQ(resident(), 0);
  std::memset(bytes + page, 7, 5 * page);
  EXPECT_EQ(resident(), 5);
  buffer.give_back(page + 1, 3 * page);  // two whole pages, and parts of two
  EXPECT_EQ(resident(), 3);
  for (size_t i = page; i < 6 * page; ++i) ASSERT_EQ(bytes[i], i / page == 2 || i / page == 3 ? 0 : 7) << i;
}

TEST(TrainState, TheHashChangesWithAnyBit) {
  Trained trained;
  trained.apply(usual(), trained.random_gradients(1));
  const std::string hash = trained.state.hash();
  EXPECT_THAT(hash, ::testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(hash.size(), 32U);
  uint64_t draw = 0;
  for (const StateTensor& tensor : trained.state.tensors()) {
    const auto byte = static_cast<size_t>(uniform_at(3, 3, draw++) * static_cast<double>(tensor.bytes));
    const auto bit = static_cast<std::byte>(1 << (draw % 8));
    tensor.data[byte] ^= bit;
    EXPECT_NE(trained.state.hash(), hash) << tensor.name << " byte " << byte;
    tensor.data[byte] ^= bit;
  }
  EXPECT_EQ(trained.state.hash(), hash);
}

}  // namespace
}  // namespace holdfast::model
