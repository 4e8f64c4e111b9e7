#include "ops/cli/plan/report_text.h"

#include <fmt/format.h>

#include <iterator>

#include "ops/cli/jobs/plan_text.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/quantities.h"
#include "ops/cli/terminal/table.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

using rendezvous::PlanFigures;
using rendezvous::PlanInputs;
using rendezvous::PlanReport;
using rendezvous::Recommendation;

std::string line(const char* name, const std::string& text) {
  return fmt::format("{:<14}{}\n", name, text);
}

// "2,048 tokens an optimizer step", and how many of a job's step where that is more.
std::string tokens_text(const PlanInputs& in, const PlanFigures& f) {
  std::string text = fmt::format("{} tokens an optimizer step", count_text(f.tokens_per_optimizer_step));
  if (in.sync_every > 1) {
    text += fmt::format("; a step of the job is {} of them: {} tokens", in.sync_every, count_text(f.tokens_per_step));
  }
  return text;
}

std::string microbatches_text(const PlanInputs& in) {
  return rendezvous::counted(in.accumulation, "microbatch", "microbatches");
}

std::string settings_text(const PlanReport& report) {
  const PlanInputs& in = report.inputs;
  const PlanFigures& f = report.figures;
  const double tokens = static_cast<double>(in.batch_size * in.model.block_size);
  return line("model", fmt::format("{} layers, {} channels, vocabulary {}, block {}{}: {} parameters", in.model.n_layer,
                                   in.model.n_embd, in.model.vocab_size, in.model.block_size,
                                   in.model.ties_head ? "" : ", a head of its own", count_text(f.parameters))) +
         line("batch", fmt::format("{} x {} of {} x {}: {}", rendezvous::nodes_in_words(in), microbatches_text(in),
                                   in.batch_size, in.model.block_size, tokens_text(in, f))) +
         line("device", fmt::format("{} a microbatch, {} ({})", seconds_text(in.microbatch_s),
                                    rate_text(tokens / in.microbatch_s), report.sources.speed)) +
         line("link", fmt::format("{} each way, round trip {} ({})", link_rate_text(in.link_bytes_per_s),
                                  seconds_text(in.round_trip_s), report.sources.link));
}

std::string sync_text(const PlanInputs& in, const PlanFigures& f) {
  if (rendezvous::nodes_of(in) == 1) return "one node: none";
  const std::string every = in.sync_every == 1 ? "every step" : fmt::format("every {} optimizer steps", in.sync_every);
  std::string text = fmt::format("{}, {}: {} each way, {} on the link", in.wire.name, every, bytes_text(f.bytes_each_way),
                                 seconds_text(f.link_s));
  if (f.row_s > 0) {
    text += fmt::format(", {} and {} for rows of the embedding", bytes_text(f.row_bytes_each_way), seconds_text(f.row_s));
  }
  if (f.latency_s > 0) text += fmt::format(", {} of round trips", seconds_text(f.latency_s));
  if (f.hidden_s > 0) text += fmt::format(", {} of it beside computing", seconds_text(f.hidden_s));
  return text;
}

std::string memory_text(const PlanInputs& in, const PlanFigures& f) {
  std::string text = fmt::format("{} of each worker's device, and the scratch of its libraries", bytes_text(f.memory));
  if (in.device_memory <= 0) return text;
  return text + fmt::format("; the smallest has {}{}", bytes_text(in.device_memory),
                            f.memory > in.device_memory ? ": too little for these settings" : "");
}

std::string figures_text(const PlanReport& report) {
  const PlanInputs& in = report.inputs;
  const PlanFigures& f = report.figures;
  return line("sync", sync_text(in, f)) +
         line("step", fmt::format("{} an optimizer step: {} of computing, {} of waiting for the link ({})",
                                  seconds_text(f.optimizer_step_s), seconds_text(f.optimizer_step_compute_s),
                                  seconds_text(f.optimizer_step_communication_s), percent_text(f.communication_share))) +
         line("efficiency", fmt::format("{} of what each node does alone with {} an optimizer step; together {}",
                                        percent_text(f.efficiency), microbatches_text(in), rate_text(f.tokens_per_s))) +
         line("memory", memory_text(in, f));
}

std::string table_text(const PlanReport& report) {
  std::vector<Column> headings = {"WIRE", "REDUCTION", "EACH WAY"};
  for (const int64_t accumulation : rendezvous::kTableAccumulation) headings.emplace_back(fmt::format("x{}", accumulation));
  Table table(std::move(headings));
  for (size_t wire = 0; wire < report.table.size(); ++wire) {
    const auto& row = report.table[wire];
    const rendezvous::WireType& type = rendezvous::kWireTypes[wire];
    std::vector<Cell> cells = {std::string(type.name), std::string(type.reduction), bytes_text(row.front().bytes_each_way)};
    for (const PlanFigures& figures : row) cells.emplace_back(percent_text(figures.efficiency));
    table.add(std::move(cells));
  }
  return "Efficiency by wire type and gradient_accumulation_steps:\n" + table.text(0);
}

std::string recommendation_text(const Recommendation& r, const PlanInputs& asked) {
  const std::string target = percent_text(r.target);
  if (r.reached && r.figures.efficiency >= r.target && r.inputs.accumulation == asked.accumulation &&
      r.inputs.sync_every == asked.sync_every && r.inputs.wire.name == asked.wire.name) {
    return line(("for " + target).c_str(), "reached with the settings asked for");
  }
  return line(("for " + target).c_str(), fmt::format("{}{}: {}, {}", r.reached ? "" : "not reached; the most is ",
                                                     rendezvous::changed_flags(r.inputs, asked),
                                                     percent_text(r.figures.efficiency), tokens_text(r.inputs, r.figures)));
}

std::string same_training_text(const Recommendation& r, const PlanInputs& asked) {
  const std::string flags = rendezvous::changed_flags(r.inputs, asked);
  if (flags.empty()) return line("same training", "nothing is faster than the settings asked for");
  return line("same training", fmt::format("{}: {}, {:.2f}x of one node", flags, percent_text(r.figures.efficiency),
                                           rendezvous::beside_one_node(r.inputs, asked)));
}

}  // namespace

std::string text_of(const PlanReport& report) {
  std::string text = plan_comparison(rendezvous::json_of(report)) + "\n" + settings_text(report) + figures_text(report) + "\n" +
                     table_text(report) + "\n";
  if (rendezvous::nodes_of(report.inputs) > 1) {
    text += same_training_text(report.same_training, report.inputs);
    for (const Recommendation& r : report.recommendations) text += recommendation_text(r, report.inputs);
    text += "\n";
  }
  for (const std::string& assumption : rendezvous::assumptions(report.inputs)) text += "Assumed: " + assumption + ".\n";
  return text;
}

}  // namespace holdfast::ops
