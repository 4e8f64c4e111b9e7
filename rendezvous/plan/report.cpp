#include "rendezvous/plan/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr double kWorthAWord = 1.02;  // settings that are so much faster are worth a sentence

std::vector<WireType> wires_of(std::string_view reduction) {
  std::vector<WireType> wires;
  std::ranges::copy_if(kWireTypes, std::back_inserter(wires), [&](const WireType& w) { return w.reduction == reduction; });
  return wires;
}

Json settings_json(const PlanInputs& inputs) {
  return {{"batch_size", inputs.batch_size},
          {"gradient_accumulation_steps", inputs.accumulation},
          {"reduction", inputs.wire.reduction},
          {"wire_dtype", inputs.wire.name},
          {"sync_every", inputs.sync_every},
          {"overlap", overlap_word(inputs)},
          {"recompute", recompute_word(inputs.recompute)}};
}

Json figures_json(const PlanFigures& f) {
  return {{"bytes_each_way", f.bytes_each_way},
          {"row_bytes_each_way", f.row_bytes_each_way},
          {"link_s", f.link_s},
          {"row_s", f.row_s},
          {"latency_s", f.latency_s},
          {"hidden_s", f.hidden_s},
          {"exposed_s", f.exposed_s},
          {"optimizer_step_compute_s", f.optimizer_step_compute_s},
          {"optimizer_step_communication_s", f.optimizer_step_communication_s},
          {"optimizer_step_s", f.optimizer_step_s},
          {"communication_share", f.communication_share},
          {"efficiency", f.efficiency},
          {"tokens_per_optimizer_step", f.tokens_per_optimizer_step},
          {"tokens_per_step", f.tokens_per_step},
          {"tokens_per_s", f.tokens_per_s},
          {"of_one_node", f.of_one_node},
          {"memory_bytes", f.memory}};
}

Json changes_json(const PlanInputs& settings, const PlanInputs& asked) {
  Json changes = Json::object();
  for (const auto& [name, value] : changed_fields(settings, asked))
    std::visit([&, field = name](const auto& number_or_word) { changes[field] = number_or_word; }, value);
  return changes;
}

Json recommendation_json(const Recommendation& r, const PlanInputs& asked) {
  return {{"target", r.target},
          {"reached", r.reached},
          {"settings", settings_json(r.inputs)},
          {"figures", figures_json(r.figures)},
          {"of_one_node", beside_one_node(r.inputs, asked)},
          {"flags", changed_flags(r.inputs, asked)},
          {"changes", changes_json(r.inputs, asked)}};
}

Json table_json(const PlanReport& report) {
  Json rows = Json::array();
  for (size_t wire = 0; wire < report.table.size(); ++wire) {
    for (size_t i = 0; i < std::size(kTableAccumulation); ++i) {
      Json row = figures_json(report.table[wire][i]);
      row["wire_dtype"] = kWireTypes[wire].name;
      row["reduction"] = kWireTypes[wire].reduction;
      row["gradient_accumulation_steps"] = kTableAccumulation[i];
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// "16 x 8, int16, overlap on": a microbatch's sequences, and microbatches a node; the rest where it is not the default.
std::string settings_in_words(const PlanInputs& in) {
  std::string words = fmt::format("{} x {}", in.batch_size, in.accumulation);
  if (nodes_of(in) > 1) words += fmt::format(", {}, overlap {}", in.wire.name, overlap_word(in));
  if (in.recompute != model::Recompute::kNone) words += fmt::format(", recompute {}", recompute_word(in.recompute));
  if (in.sync_every != 1) words += fmt::format(", sync_every {}", in.sync_every);
  return words;
}

Json comparison_json(const PlanReport& report) {
  PlanInputs alone = on_one_node(report.inputs);
  alone.sync_every = 1;
  Json rows = Json::array();
  const auto add = [&](const char* name, const PlanInputs& settings) {
    rows.push_back({{"name", name},
                    {"settings", settings_in_words(settings)},
                    {"tokens_per_s", figures_of(settings).tokens_per_s},
                    {"of_one_node", beside_one_node(settings, report.inputs)}});
  };
  add("one node alone", alone);
  add("as asked", report.inputs);
  add("the same training", report.same_training.inputs);
  return rows;
}

int64_t microbatches(const PlanInputs& inputs) {
  return inputs.workers * inputs.accumulation;
}

bool has_other_bits(const PlanInputs& settings, const PlanInputs& asked) {
  return settings.wire.name != asked.wire.name || settings.batch_size != asked.batch_size;
}

}  // namespace

PlanReport plan_report(const PlanInputs& inputs, PlanSources sources, const Allowed& allowed, const Allowed& kept) {
  PlanReport report{inputs,
                    std::move(sources),
                    figures_of(inputs),
                    {},
                    recommend_same_training(inputs, kept),
                    recommend_same_training(inputs, allowed),
                    {}};
  for (const WireType& wire : kWireTypes) {
    PlanInputs cell = inputs;
    cell.wire = wire;
    std::vector<PlanFigures> row;
    for (const int64_t accumulation : kTableAccumulation) {
      cell.accumulation = accumulation;
      row.push_back(figures_of(cell));
    }
    report.table.push_back(std::move(row));
  }
  for (const double target : {0.90, 0.97})
    report.recommendations.push_back(recommend(inputs, wires_of(inputs.wire.reduction), target, allowed));
  return report;
}

Json json_of(const PlanReport& report) {
  const PlanInputs& in = report.inputs;
  Json json = {{"parameters", report.figures.parameters},
               {"nodes", in.workers},
               {"workers_per_node", in.workers_per_node},
               {"batch_size", in.batch_size},
               {"block_size", in.model.block_size},
               {"microbatch_s", in.microbatch_s},
               {"update_s", in.update_s},
               {"device_source", report.sources.speed},
               {"link_bytes_per_s", in.link_bytes_per_s},
               {"round_trip_s", in.round_trip_s},
               {"link_source", report.sources.link},
               {"link_known", report.sources.link_known},
               {"settings", settings_json(in)},
               {"figures", figures_json(report.figures)},
               {"table", table_json(report)},
               {"device_memory_bytes", in.device_memory > 0 ? Json(in.device_memory) : Json(nullptr)},
               {"memory_source", report.sources.memory},
               {"verdict", verdict(report)},
               {"comparison", comparison_json(report)},
               {"same_training", recommendation_json(report.same_training, in)},
               {"recommendations", Json::array()},
               {"notes", notes(report)},
               {"assumptions", assumptions(in)}};
  for (const Recommendation& r : report.recommendations) json["recommendations"].push_back(recommendation_json(r, in));
  return json;
}

std::string verdict(const PlanReport& report) {
  const PlanInputs& asked = report.inputs;
  if (nodes_of(asked) == 1) return "One node: nothing is on the link.";
  const std::string nodes = nodes_in_words(asked);
  const double best = beside_one_node(report.same_training.inputs, asked);
  std::string text = best < 1 ? fmt::format("{} are slower than one: they do {:.2f}x of what one does alone", nodes, best)
                              : fmt::format("{} do {:.2f}x of what one does alone", nodes, best);
  if (const std::string flags = changed_flags(report.same_training.inputs, asked); !flags.empty())
    text += fmt::format(" with {} ({:.2f}x as asked)", flags, report.figures.of_one_node);
  if (report.same_training.figures.efficiency >= report.recommendations.front().target) return text + ".";
  const Recommendation& more = report.recommendations.front();
  const double helped = beside_one_node(more.inputs, asked);
  if (helped <= best) return text + ". Nothing that was tried would do more; a faster link would.";
  return text + fmt::format(". More takes another training: {} would do {:.2f}x.", changed_flags(more.inputs, asked), helped);
}

std::vector<std::string> notes(const PlanReport& report) {
  const PlanInputs& asked = report.inputs;
  const PlanInputs& same = report.same_training.inputs;
  std::vector<std::string> all;
  if (nodes_of(asked) == 1) return all;
  if (report.left_free.figures.tokens_per_s > report.same_training.figures.tokens_per_s * kWorthAWord) {
    all.push_back(fmt::format("what was given by name stays; left free, {} would do {:.2f}x",
                              changed_flags(report.left_free.inputs, asked), beside_one_node(report.left_free.inputs, asked)));
  }
  if (has_other_bits(same, asked))
    all.emplace_back(
        "as many tokens a step and as exact a sum, but other bits: the state hash is not that of the settings as asked");
  if (microbatches(same) < microbatches(asked)) {
    all.push_back(fmt::format("a step has {} then, not {}, and each worker needs one: no more workers can take part",
                              counted(microbatches(same), "microbatch", "microbatches"), microbatches(asked)));
  }
  if (asked.wire.reduction == "float")
    all.emplace_back("with reduction float the wire type stays as it is: a sum in another one is another training");
  return all;
}

NominalLink nominal_link(double gbit_s) {
  return {
      nominal_link_rate(gbit_s),
      fmt::format("{:.4g} Gbit/s, of which TCP in frames of 1,500 bytes carries {} at most; `holdfast netcheck` measures it",
                  gbit_s, kLineRateShare)};
}

}  // namespace holdfast::rendezvous
