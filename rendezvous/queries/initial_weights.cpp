#include "rendezvous/queries/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/protocol/data_source.h"
#include "rendezvous/protocol/initial_source.h"
#include "rendezvous/queries/resume.h"

namespace holdfast::rendezvous {
namespace {

constexpr std::pair<const char*, int64_t JobSpec::*> kSizes[] = {{"n_layer", &JobSpec::n_layer},
                                                                 {"n_embd", &JobSpec::n_embd},
                                                                 {"n_head", &JobSpec::n_head},
                                                                 {"vocab_size", &JobSpec::vocab_size},
                                                                 {"block_size", &JobSpec::block_size}};

// As initial_weights.h of the model has it: fewer positions than the model has are fine.
std::string other_sizes(const JobSpec& theirs, const JobSpec& spec) {
  std::string differences, flags;
  for (const auto& [name, size] : kSizes) {
    const bool is_good = size == &JobSpec::block_size ? theirs.*size >= spec.*size : theirs.*size == spec.*size;
    if (is_good) continue;
    differences += fmt::format("{}{} {}, not {}", differences.empty() ? "" : ", ", name, theirs.*size, spec.*size);
    flags += fmt::format(" --{} {}", name, theirs.*size);
  }
  if (theirs.tied_head == "off" && spec.tied_head == "on") {
    differences += fmt::format("{}a head of its own, not one that is tied to the embedding", differences.empty() ? "" : ", ");
    flags += " --tied_head off";
  }
  if (differences.empty()) {
    if (theirs.biases == spec.biases || spec.biases == "on") return "";
    return "its model has biases, and this job has them off: submit with --biases on, or leave that out";
  }
  return fmt::format("its model has {}: submit with{}, or leave the sizes out", differences, flags);
}

}  // namespace

nlohmann::json with_sizes_of_named_job(const Coordinator& state, const nlohmann::json& request) {
  if (!request.is_object()) return request;
  const auto named = request.find("init_from");
  if (named == request.end() || !named->is_string()) return request;
  const Job* job = state.find_job(parse_initial_source(named->get<std::string>()).job);
  if (job == nullptr) return request;
  nlohmann::json filled = request;
  for (const auto& [name, size] : kSizes) {
    if (!filled.contains(name) && !request.contains("model")) filled[name] = job->membership->spec.*size;
  }
  if (!filled.contains("tied_head")) filled["tied_head"] = job->membership->spec.tied_head;
  return filled;
}

OrRefusal<void> pin_initial_weights(const Coordinator& state, JobSpec& spec) {
  InitialSource source = parse_initial_source(spec.init_from);
  if (!source.of_job()) return {};
  const auto found = checkpoint_of_job(state, source.job, source.step, "init_from");
  if (!found) return tl::unexpected(found.error());
  if (const std::string other = other_sizes(state.find_job(source.job)->membership->spec, spec); !other.empty())
    return refuse_field("init_from", fmt::format("{}: {}", spec.init_from, other));
  source.step = found->step;
  source.store = found->store;
  spec.init_from = to_text(source);
  return {};
}

OrRefusal<void> find_tokenizer(const Coordinator& state, JobSpec& spec) {
  if (!spec.serves() || !spec.tokenizer.empty()) return {};
  const std::string job = parse_initial_source(spec.init_from).job;
  const std::string& data = state.find_job(job)->membership->spec.train_data_path;  // it is there: the weights are pinned
  spec.tokenizer = training_folder(data);
  if (!spec.tokenizer.empty()) return {};
  return refuse_field("tokenizer",
                      fmt::format("none is known, for the training data of {}, {}, is no file: give the folder on the "
                                  "workers that `data prepare` wrote",
                                  job, data));
}

}  // namespace holdfast::rendezvous
