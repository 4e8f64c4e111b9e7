// `holdfast audit`: does the ledger account for every microbatch of every step exactly once, and (with the data files) was
// each step computed on the tokens that the data order says?
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <utility>

#include "model/data/token_file.h"
#include "model/data/training_data.h"
#include "ops/cli/audit_ledger.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "rendezvous/protocol/data_source.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

constexpr int kReadAttempts = 5;

// The digest of the tokens of the step that leads to state `step`.
std::string digest_of(const model::TrainingData& data, int64_t step) {
  std::vector<int32_t> inputs(static_cast<size_t>(data.shape().tokens())), targets(inputs.size());
  uint64_t sum = 0;
  for (int64_t microbatch = 0; microbatch < data.shape().microbatches; ++microbatch) {
    data.fill(step - 1, microbatch, inputs, targets);
    sum += model::microbatch_digest(step - 1, microbatch, inputs, targets);
  }
  return fmt::format("{:016x}", sum);
}

// The sources of the job, which must be as many as there are files.
std::vector<rendezvous::DataSource> sources_of(const Json& spec, size_t files) {
  const std::string text = text_at(spec, "train_data_path");
  auto sources = rendezvous::parse_training_sources(text);
  if (!sources) throw Failure{kBadInput, fmt::format("the job's train_data_path: {}", sources.error())};
  if (sources->size() == files) return *std::move(sources);
  throw Failure{kBadInput,
                fmt::format("--data was given {}, and the job trains on {}: give --data once for each, in the order of {}",
                            files == 1 ? "once" : fmt::format("{} times", files),
                            rendezvous::counted(static_cast<int64_t>(sources->size()), "file"), text)};
}

// Holds each step's noted digest against the training files, which are in the order of the job's sources.
class DataCheck {
 public:
  DataCheck(const Json& spec, int64_t microbatches, const std::vector<std::string>& paths) {
    const model::BatchShape shape{integer_at(spec, "batch_size"), integer_at(spec, "block_size"), microbatches};
    const auto named = sources_of(spec, paths.size());
    std::vector<model::TrainingSource> sources;
    for (size_t i = 0; i < paths.size(); ++i) {
      const auto file = model::TokenFile::open(paths[i]);
      if (!file) throw Failure{kBadInput, file.error()};
      files_.push_back(*file);
      sources.push_back({files_.back()->tokens(), named[i].share, nullptr});
      if (static_cast<int64_t>(sources[i].tokens.size()) > shape.block_size) continue;
      throw Failure{kBadInput,
                    fmt::format("{} has {} tokens, fewer than one sequence of the job: is it the file it was trained on?",
                                paths[i], sources[i].tokens.size())};
    }
    data_ = model::TrainingData(std::move(sources), static_cast<uint64_t>(integer_at(spec, "seed")), shape);
  }

  void check(const Json& step, Findings& findings) const {
    const int64_t number = integer_at(step, "step");
    const std::string expected = digest_of(data_, number), found = text_at(step, "data_digest");
    if (expected != found)
      findings.add(fmt::format("step {} was computed on other tokens: the data order gives {}, the job noted {}", number,
                               expected, found));
  }

 private:
  std::vector<std::shared_ptr<const model::TokenFile>> files_;
  model::TrainingData data_;
};

// The ledger, page by page; nothing when the job went on in another generation meanwhile, because it may have gone back. Steps
// are looked at as they come and not kept.
std::optional<LedgerSummary> audit_once(Api& api, const std::string& job, const Json& spec,
                                        const std::vector<std::string>& data) {
  const std::string path = fmt::format("/v1/jobs/{}/ledger?limit=1000", job);
  Json page = api.get(path);
  const int64_t step = integer_at(page, "step"), generation = integer_at(page, "generation");
  Json all = {{"microbatches", page.at("microbatches")}, {"rows", Json::array()}};
  all["first_step"] = page.value("first_step", int64_t{1});
  std::optional<DataCheck> check;
  if (!data.empty()) check.emplace(spec, integer_at(page, "microbatches"), data);
  NotedSteps noted(integer_at(all, "first_step"), step);
  Findings of_steps, of_data;
  while (true) {
    all["rows"].insert(all["rows"].end(), page["rows"].begin(), page["rows"].end());
    for (const Json& row : page["steps"]) {
      if (noted.take(integer_at(row, "step"), of_steps) && check) check->check(row, of_data);
    }
    const std::string token = text_at(page, "next_page_token");
    if (token.empty()) break;
    page = api.get(path + "&page_token=" + percent_encoded(token));
    if (integer_at(page, "generation") != generation) return std::nullopt;
  }
  noted.finish(of_steps);
  all["rows"] = rows_as_of(std::move(all["rows"]), step);
  LedgerSummary summary = audit_ledger(all, step);
  summary.findings.append(of_steps);
  summary.findings.append(of_data);
  return summary;
}

LedgerSummary audit_job(Api& api, const std::string& job, const Json& spec, const std::vector<std::string>& data) {
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    if (auto summary = audit_once(api, job, spec, data)) return *std::move(summary);
  }
  throw Failure{kBadInput, fmt::format("job {} begins new generations faster than its ledger can be read: try again", job)};
}

struct AuditArguments {
  std::string job;
  std::vector<std::string> data;
};

void audit(const Options& options, const AuditArguments& arguments) {
  Api api(options);
  const std::string id = api.job_id(arguments.job);
  const Json job = api.get("/v1/jobs/" + id);
  const LedgerSummary summary = audit_job(api, id, job["spec"], arguments.data);
  const Findings& findings = summary.findings;
  if (options.json) {
    print_json({{"job", id},
                {"ok", findings.total == 0},
                {"first_step", summary.first_step},
                {"last_step", summary.last_step},
                {"microbatches", summary.microbatches},
                {"voided_steps", summary.voided_steps},
                {"data_checked", !arguments.data.empty()},
                {"findings", findings.listed},
                {"findings_total", findings.total}});
  } else {
    for (const std::string& finding : findings.listed) fmt::print("{}: {}\n", id, finding);
    if (findings.total > findings.listed.size()) fmt::print("... and {} more\n", findings.total - findings.listed.size());
    if (findings.total == 0) {
      fmt::print("{}: ok. Steps {} to {}: each of {} microbatches once{}{}.\n", id, summary.first_step, summary.last_step,
                 summary.microbatches,
                 summary.voided_steps > 0
                     ? fmt::format("; {} steps were done again after a loss of all state", summary.voided_steps)
                     : "",
                 arguments.data.empty() ? "" : "; every step on the tokens that the data order gives it");
    }
  }
  if (findings.total > 0) throw Failure{kJobFailed, ""};
}

}  // namespace

void add_audit_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<AuditArguments>();
  CLI::App* command =
      add_command(app, options, "audit", "Check that every microbatch of every step was done once; exit code 1 if not",
                  "holdfast audit j1 --data data/train.bin\n"
                  "  holdfast audit j2 --data data/a.bin --data data/b.bin    # of a mixture, in its order");
  add_job_argument(*command, arguments->job);
  command
      ->add_option("--data", arguments->data,
                   "The training file, or each of a mixture's in its order: check the tokens of each step, too")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command->callback([&options, arguments] { audit(options, *arguments); });
}

}  // namespace holdfast::ops
