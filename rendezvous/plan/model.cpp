#include "rendezvous/plan/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rendezvous/plan/memory.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

constexpr double kBucketBytes = 4e6;  // of float32 gradient that are reduced at a time
constexpr double kGathers = 3;
constexpr double kBackwardShare = 2.0 / 3;

// Of a parameter that goes to those who do not own it: float32, or the difference of 16-bit copies once coded.
double copy_bytes(const PlanInputs& inputs) {
  return inputs.activation_bytes == 2 ? 0.6 : 4;
}

// How often in a step sums are sent, by one sync.
double sendings(const PlanInputs& inputs) {
  return inputs.scatters_gradients ? static_cast<double>(inputs.accumulation) : 1;
}

// Of the P parameters in a step, to a worker that owns none of them.
double bytes_of_copies(const PlanInputs& inputs, double P) {
  if (!inputs.scatters_parameters) return P * copy_bytes(inputs);
  const double layers = static_cast<double>(inputs.model.n_layer * parameter_counts(inputs.model).layer);
  return static_cast<double>(inputs.activation_bytes) * (P - layers + 2 * static_cast<double>(inputs.accumulation) * layers);
}

double bytes_each_way(const PlanInputs& inputs, int64_t parameters) {
  const auto N = static_cast<double>(inputs.workers), M = static_cast<double>(nodes_of(inputs));
  const auto P = static_cast<double>(parameters), K = std::min(static_cast<double>(inputs.replicas), N);
  if (inputs.scatters_gradients || (K > 0 && K < N && inputs.workers_per_node == 1)) {
    const double sums = (N + K - 2) * inputs.wire.bytes_per_element * sendings(inputs) * P;
    return (sums + (N - K) * bytes_of_copies(inputs, P)) / N;
  }
  const double rounds = inputs.wire.all_to_all_first ? (N - 1) / 2 + (N - 1) / N : 2 * (M - 1) / M;
  return rounds * P * inputs.wire.bytes_per_element;
}

// Without overlap an exact sum takes the rows in before it is sent.
bool has_rows(const PlanInputs& inputs) {
  if (inputs.scatters_gradients || !inputs.model.ties_head) return false;
  return inputs.sync_every == 1 && (inputs.overlap || inputs.wire.reduction != "exact");
}

double row_bytes_each_way(const PlanInputs& inputs) {
  if (!has_rows(inputs)) return 0;
  const int64_t rows = std::min(inputs.batch_size * inputs.model.block_size, inputs.model.vocab_size);
  const int64_t row_bytes = inputs.model.n_embd * (inputs.wire.name == "int16" ? 2 : 4) + 4;
  return static_cast<double>((inputs.workers - 1) * rows * row_bytes);
}

double latency(const PlanInputs& inputs, int64_t parameters) {
  const double buckets = std::ceil(4 * static_cast<double>(parameters) / kBucketBytes);
  const double gathers = inputs.model.ties_head ? kGathers : kGathers - 1;  // without the rows
  return static_cast<double>(nodes_of(inputs) - 1) * inputs.round_trip_s * (gathers + buckets * sendings(inputs));
}

// The share of the head in the multiply-adds of a token; attention is causal, so half of its T positions on average, twice.
double head_share(const model::Gpt2Config& model) {
  const auto L = static_cast<double>(model.n_layer), C = static_cast<double>(model.n_embd);
  const auto V = static_cast<double>(model.vocab_size), T = static_cast<double>(model.block_size);
  return V * C / (V * C + L * (12 * C * C + T * C));
}

// Of all microbatches: a layer's sums, and the next layer's parameters, beside the backward pass of one; and parameters beside
// the forward pass.
double hidden_scattering(const PlanInputs& inputs, const ParameterCounts& counts, double backward) {
  const auto N = static_cast<double>(inputs.workers), K = std::min(static_cast<double>(inputs.replicas), N);
  const double element_s = static_cast<double>(counts.layer) / N / inputs.link_bytes_per_s;
  const double sums = element_s * (N + K - 2) * inputs.wire.bytes_per_element;
  const double copies = inputs.scatters_parameters ? element_s * (N - K) * static_cast<double>(inputs.activation_bytes) : 0;
  const auto layers = static_cast<double>((inputs.model.n_layer - 1) * inputs.accumulation);
  return layers * (std::min(sums + copies, backward) + std::min(copies, backward / 2));
}

double hidden(const PlanInputs& inputs, const ParameterCounts& counts, double link_s) {
  if (!overlaps(inputs)) return 0;
  const auto L = static_cast<double>(inputs.model.n_layer);
  const double element_s = link_s / static_cast<double>(counts.total);
  const double layer_s = element_s * static_cast<double>(counts.layer);
  const double embedding_s = element_s * static_cast<double>(counts.embedding);
  const double backward = kBackwardShare * inputs.microbatch_s * (1 - head_share(inputs.model)) / L;
  if (inputs.scatters_gradients) return hidden_scattering(inputs, counts, backward);
  return std::min(L * backward, embedding_s + (L - 1) * std::min(backward, layer_s));
}

}  // namespace

// Of a model of one layer, for thousands of settings are tried, and a table of all layers would be most of the work.
ParameterCounts parameter_counts(const model::Gpt2Config& model) {
  model::Gpt2Config one = model;
  one.n_layer = 1;
  const model::ParameterTable table(one);
  ParameterCounts counts;
  for (const model::Parameter& parameter : table.entries) {
    if (parameter.name.starts_with("h.0.")) counts.layer += parameter.count;
  }
  counts.embedding = table["wte.weight"].count;
  counts.total = table.total + (model.n_layer - 1) * counts.layer;
  return counts;
}

PlanFigures figures_of(const PlanInputs& inputs) {
  const ParameterCounts counts = parameter_counts(inputs.model);
  PlanFigures f{};
  f.parameters = counts.total;
  f.tokens_per_optimizer_step = inputs.workers * inputs.accumulation * inputs.batch_size * inputs.model.block_size;
  f.tokens_per_step = f.tokens_per_optimizer_step * inputs.sync_every;
  const bool linked = nodes_of(inputs) > 1;
  f.bytes_each_way = linked ? bytes_each_way(inputs, counts.total) : 0;
  f.row_bytes_each_way = linked ? row_bytes_each_way(inputs) : 0;
  f.link_s = f.bytes_each_way / inputs.link_bytes_per_s;
  f.row_s = f.row_bytes_each_way / inputs.link_bytes_per_s;
  f.latency_s = latency(inputs, counts.total);
  f.hidden_s = hidden(inputs, counts, f.link_s);
  f.exposed_s = f.link_s + f.row_s + f.latency_s - f.hidden_s;
  f.optimizer_step_compute_s = static_cast<double>(inputs.accumulation) * inputs.microbatch_s + inputs.update_s;
  f.optimizer_step_communication_s = f.exposed_s / static_cast<double>(inputs.sync_every);
  f.optimizer_step_s = f.optimizer_step_compute_s + f.optimizer_step_communication_s;
  f.communication_share = f.optimizer_step_communication_s / f.optimizer_step_s;
  f.efficiency = f.optimizer_step_compute_s / f.optimizer_step_s;
  f.tokens_per_s = static_cast<double>(f.tokens_per_optimizer_step) / f.optimizer_step_s;
  f.of_one_node = static_cast<double>(inputs.workers) / static_cast<double>(on_one_node(inputs).workers) * f.efficiency;
  f.memory = device_memory_needed(inputs);
  return f;
}

int64_t nodes_of(const PlanInputs& inputs) {
  return (inputs.workers + inputs.workers_per_node - 1) / inputs.workers_per_node;
}

PlanInputs on_one_node(PlanInputs inputs) {
  inputs.workers = std::min(inputs.workers, inputs.workers_per_node);
  return inputs;
}

std::string nodes_in_words(const PlanInputs& inputs) {
  const std::string nodes = counted(nodes_of(inputs), "node");
  return inputs.workers_per_node == 1 ? nodes : fmt::format("{} of {}", nodes, counted(inputs.workers_per_node, "worker"));
}

bool overlaps(const PlanInputs& inputs) {
  return inputs.overlap && inputs.sync_every == 1;
}

const char* overlap_word(const PlanInputs& inputs) {
  return inputs.overlap ? "on" : "off";
}

const char* recompute_word(model::Recompute recompute) {
  constexpr const char* kWords[] = {"none", "attention", "block"};
  return kWords[static_cast<size_t>(recompute)];
}

std::vector<std::string> assumptions(const PlanInputs& inputs) {
  std::vector<std::string> all = {
      "all workers are equally fast, and the link carries the given rate in both directions at once (netcheck measures it)",
      "a worker's processors have time for the link: on CPUs that compute at the same time it takes some of theirs"};
  if (nodes_of(inputs) == 1) return {"one node: nothing is on the link"};
  if (overlaps(inputs)) {
    all.emplace_back(
        "the backward pass is two thirds of a microbatch's time, and only the last microbatch's can hide anything: of the "
        "embedding and of the layers but the first, from where the pass enters the last layer on");
  }
  if (has_rows(inputs)) {
    all.emplace_back(
        "every token of a microbatch is another one, so each gives the embedding a row: text repeats many, and has fewer rows");
  }
  if (inputs.sync_every > 1) all.emplace_back("nothing is hidden where a sync comes every sync_every optimizer steps");
  if (inputs.wire.name == "int16")
    all.emplace_back("no step is packed again: with int16 a few in a hundred are, which costs their computing a second time");
  return all;
}

double nominal_link_rate(double gbit_s) {
  return gbit_s * 1e9 / 8 * kLineRateShare;
}

}  // namespace holdfast::rendezvous
