#include "model/microbatch_time.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

namespace holdfast::model {
namespace {

constexpr size_t kPassesMax = 50;

std::vector<int32_t> random_ids(int64_t count, int64_t vocab_size, std::minstd_rand& random) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(static_cast<int64_t>(random()) % vocab_size);
  return ids;
}

}  // namespace

MicrobatchTime time_microbatches(kernels::DeviceOps& ops, const Gpt2Config& config, int64_t batch_size, Recompute recompute,
                                 const Recipe& recipe, double limit_s) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); };
  Gpt2 net(config, ops, batch_size, recompute);
  net.set_recipe(recipe);
  net.initialize(1);
  std::minstd_rand random(1);
  const int64_t count = batch_size * config.block_size;
  const auto tokens = random_ids(count, config.vocab_size, random), targets = random_ids(count, config.vocab_size, random);
  net.train_microbatch(tokens, targets);
  std::vector<double> passes;
  const auto begin = Clock::now();
  while (passes.empty() || (passes.size() < kPassesMax && since(begin) < limit_s)) {
    const auto start = Clock::now();
    net.train_microbatch(tokens, targets);
    passes.push_back(since(start));
  }
  std::ranges::sort(passes);
  return {passes[passes.size() / 2], static_cast<int64_t>(passes.size())};
}

}  // namespace holdfast::model
