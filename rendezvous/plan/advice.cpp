#include "rendezvous/plan/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

namespace holdfast::rendezvous {
namespace {

using model::Recompute;

constexpr int64_t kAccumulationMax = 64;
constexpr std::array<int64_t, 5> kSyncEvery = {1, 8, 16, 32, 64};
constexpr std::array kRecompute = {Recompute::kNone, Recompute::kAttention, Recompute::kBlock};
constexpr double kWorthAChange = 1.005;  // settings that are so much faster are worth one more change

bool fits(const PlanInputs& inputs) {
  return inputs.device_memory <= 0 || figures_of(inputs).memory <= inputs.device_memory;
}

int changes(const PlanInputs& settings, const PlanInputs& asked) {
  return static_cast<int>(settings.wire.name != asked.wire.name) + static_cast<int>(settings.overlap != asked.overlap) +
         static_cast<int>(settings.batch_size != asked.batch_size) + static_cast<int>(settings.recompute != asked.recompute);
}

// Settings with as many tokens in an optimizer step as `inputs`, in all wire types of `wires`, those with fewer changes first.
std::vector<PlanInputs> same_tokens(const PlanInputs& inputs, const std::vector<WireType>& wires, const Allowed& allowed) {
  std::vector<PlanInputs> all;
  const auto add = [&](const PlanInputs& settings) {
    for (const WireType& wire : wires) {
      for (const bool overlap : {true, false}) {
        PlanInputs tried = settings;
        tried.wire = wire;
        tried.overlap = overlap;
        if (allowed(tried) && fits(tried)) all.push_back(tried);
      }
    }
  };
  for (int64_t times = 1; inputs.accumulation % times == 0; times *= 2) {
    for (const Recompute recompute : kRecompute) {
      if (recompute < inputs.recompute) continue;  // somebody wanted that room
      PlanInputs tried = with_microbatch(inputs, inputs.batch_size * times, recompute);
      tried.accumulation = inputs.accumulation / times;
      add(tried);
      if (fits(tried)) break;  // no more is computed again than must be
    }
  }
  std::ranges::stable_sort(all, {}, [&](const PlanInputs& settings) { return changes(settings, inputs); });
  return all;
}

// The forward pass is a third of a pass; of it, what recompute.h says is done twice.
double passes(const model::Gpt2Config& model, Recompute recompute) {
  const auto L = static_cast<double>(model.n_layer), C = static_cast<double>(model.n_embd);
  const auto V = static_cast<double>(model.vocab_size), T = static_cast<double>(model.block_size);
  const double products = 12 * C * C, attention = T * C;
  const double share = recompute == Recompute::kNone        ? 0
                       : recompute == Recompute::kAttention ? products / 4 + attention
                                                            : products * 2 / 3 + attention;
  return 3 + (L - 1) * share / (L * (products + attention) + V * C);
}

}  // namespace

PlanInputs with_microbatch(const PlanInputs& inputs, int64_t batch_size, Recompute recompute) {
  PlanInputs other = inputs;
  other.batch_size = batch_size;
  other.recompute = recompute;
  other.microbatch_s *= static_cast<double>(batch_size) / static_cast<double>(inputs.batch_size) *
                        passes(inputs.model, recompute) / passes(inputs.model, inputs.recompute);
  return other;
}

Recommendation recommend_same_training(const PlanInputs& inputs, const Allowed& allowed) {
  std::vector<WireType> wires = {inputs.wire};
  if (inputs.wire.reduction == "exact") {  // sums in another float type are other sums
    std::ranges::copy_if(kWireTypes, std::back_inserter(wires),
                         [&](const WireType& wire) { return wire.reduction == "exact" && wire.name != inputs.wire.name; });
  }
  Recommendation best{0, true, inputs, figures_of(inputs)};
  for (const PlanInputs& tried : same_tokens(inputs, wires, allowed)) {
    const PlanFigures figures = figures_of(tried);
    const bool too_large = !fits(best.inputs);
    if (too_large || figures.tokens_per_s > best.figures.tokens_per_s * kWorthAChange) best = {0, true, tried, figures};
  }
  return best;
}

Recommendation recommend(const PlanInputs& inputs, const std::vector<WireType>& wires, double target, const Allowed& allowed) {
  Recommendation best{target, false, inputs, figures_of(inputs)};
  if (best.figures.efficiency >= target) {
    best.reached = true;
    return best;
  }
  PlanInputs tried = inputs;
  std::vector<int64_t> sync_every = {inputs.sync_every};
  std::ranges::copy_if(kSyncEvery, std::back_inserter(sync_every), [&](int64_t every) { return every > inputs.sync_every; });
  const int64_t accumulation_max = std::max(kAccumulationMax, inputs.accumulation);
  for (const int64_t every : sync_every) {
    tried.sync_every = every;
    for (tried.accumulation = inputs.accumulation; tried.accumulation <= accumulation_max; tried.accumulation *= 2) {
      for (const PlanInputs& settings : same_tokens(tried, wires, allowed)) {
        if (settings.recompute != inputs.recompute) continue;  // slower computing is no better, though its efficiency is
        const PlanFigures figures = figures_of(settings);
        if (figures.efficiency > best.figures.efficiency) best = {target, figures.efficiency >= target, settings, figures};
        if (best.reached) return best;
      }
    }
  }
  return best;
}

double beside_one_node(const PlanInputs& settings, const PlanInputs& asked) {
  return figures_of(settings).tokens_per_s / figures_of(on_one_node(asked)).tokens_per_s;
}

std::vector<ChangedField> changed_fields(const PlanInputs& settings, const PlanInputs& asked) {
  std::vector<ChangedField> fields;
  const auto number = [&](const char* name, int64_t value, int64_t before) {
    if (value != before) fields.emplace_back(name, value);
  };
  const auto word = [&](const char* name, std::string_view value, std::string_view before) {
    if (value != before) fields.emplace_back(name, std::string(value));
  };
  const auto global = [](const PlanInputs& in) { return in.workers * in.accumulation * in.batch_size; };
  number("batch_size", settings.batch_size, asked.batch_size);
  if (asked.by_global_batch) {
    number("global_batch_size", global(settings), global(asked));
  } else {
    number("gradient_accumulation_steps", settings.accumulation, asked.accumulation);
  }
  word("wire_dtype", settings.wire.name, asked.wire.name);
  word("overlap", overlap_word(settings), overlap_word(asked));
  word("recompute", recompute_word(settings.recompute), recompute_word(asked.recompute));
  number("sync_every", settings.sync_every, asked.sync_every);
  return fields;
}

std::string changed_flags(const PlanInputs& settings, const PlanInputs& asked) {
  std::string flags;
  for (const auto& [name, value] : changed_fields(settings, asked)) {
    const std::string text =
        std::holds_alternative<int64_t>(value) ? fmt::format("{}", std::get<int64_t>(value)) : std::get<std::string>(value);
    flags += fmt::format("{}--{} {}", flags.empty() ? "" : " ", name, text);
  }
  return flags;
}

}  // namespace holdfast::rendezvous
