// Resolves and verifies resume_from.
#include "rendezvous/queries/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "rendezvous/data_dir/object_folders.h"
#include "rendezvous/protocol/rules/schedule.h"
#include "rendezvous/text/list_in_words.h"
#include "storage/checkpoint.h"
#include "storage/open_store.h"
#include "storage/places/place.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Refusal> refuse(const std::string& why) {
  return refuse_field("resume_from", why);
}

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

struct Found {
  std::string created_at;
  StateSource source;
};

void collect(const Job& job, std::vector<Found>& found) {
  for (const auto& [step, record] : job.checkpoints) {
    const auto known = job.membership->checkpoints.find(step);
    if (known != job.membership->checkpoints.end() && known->second.unreadable) continue;
    found.push_back(
        {record.created_at, {StateSource::Kind::kCheckpoint, step, job.id, record.store, record.state_hash, record.copy}});
  }
}

std::vector<StateSource> newest_first(std::vector<Found> found) {
  std::ranges::stable_sort(found, [](const Found& a, const Found& b) {
    return a.created_at != b.created_at ? a.created_at > b.created_at : a.source.step > b.source.step;
  });
  std::vector<StateSource> sources;
  for (Found& one : found) sources.push_back(std::move(one.source));
  return sources;
}

std::string steps_in_words(const std::vector<StateSource>& sources) {
  if (sources.empty()) return "it has no checkpoint";
  std::vector<std::string> steps;
  for (const StateSource& source : sources) steps.push_back(std::to_string(source.step));
  if (steps.size() > 10) steps.resize(10);
  return "there are checkpoints of steps " + in_words(steps);
}

OrRefusal<ResumePlan> by_name(const Coordinator& state, const JobSpec& spec, std::optional<int64_t> step) {
  if (spec.name.empty()) {
    return refuse(fmt::format("\"{}\" looks among the jobs of the same name: give `name`, or say which job with job:ID",
                              spec.resume_from));
  }
  std::vector<Found> found;
  for (const auto& [number, job] : state.jobs()) {
    if (job->membership->spec.name == spec.name) collect(*job, found);
  }
  ResumePlan plan{newest_first(std::move(found)), !step.has_value()};
  if (plan.candidates.empty()) return refuse(fmt::format("no job named \"{}\" has a checkpoint", spec.name));
  if (!step) return plan;
  std::vector<StateSource> all = plan.candidates;
  std::erase_if(plan.candidates, [&](const StateSource& source) { return source.step != *step; });
  if (plan.candidates.empty())
    return refuse(fmt::format("no job named \"{}\" has a checkpoint of step {}; {}", spec.name, *step, steps_in_words(all)));
  plan.candidates.resize(1);
  return plan;
}

OrRefusal<ResumePlan> by_job(const Coordinator& state, const std::string& choice) {
  const size_t at = choice.find('@');
  const std::string id = choice.substr(4, at == std::string::npos ? at : at - 4);
  int64_t step = -1;
  if (at != std::string::npos) {
    const auto number = whole_number(choice.substr(at + 1));
    if (!number) return refuse(fmt::format("\"{}\" is no step: write job:{}@60, say", choice.substr(at + 1), id));
    step = *number;
  }
  auto source = checkpoint_of_job(state, id, step, "resume_from");
  if (!source) return tl::unexpected(source.error());
  return ResumePlan{{*std::move(source)}, false};
}

std::string without_scheme(const std::string& path) {
  return path.starts_with("file://") ? path.substr(7) : path;
}

OrRefusal<ResumePlan> by_path(const std::string& choice) {
  if (storage::is_s3(choice)) {
    const auto [place, step] = storage::split_step(choice, true);
    return ResumePlan{{{StateSource::Kind::kCheckpoint, step.value_or(-1), "", place, ""}}, false};
  }
  const std::string path = without_scheme(choice);
  if (path.empty() || path[0] != '/') {
    return refuse(
        fmt::format("\"{}\" is none of latest, a step, job:ID[@STEP], an absolute path or a place in S3 (s3://…)", choice));
  }
  fs::path folder(path);
  if (!folder.has_filename()) folder = folder.parent_path();
  int64_t step = -1;
  if (const std::string name = folder.filename().string(); name.starts_with("step-")) {
    const auto number = whole_number(name.substr(5));
    if (!number) return refuse(fmt::format("{} is no checkpoint's folder: step-0000000060, say", path));
    step = *number;
    folder = folder.parent_path();
  }
  return ResumePlan{{{StateSource::Kind::kCheckpoint, step, "", folder.string(), ""}}, false};
}

OrRefusal<ResumePlan> candidates_of(const Coordinator& state, const JobSpec& spec) {
  const std::string& choice = spec.resume_from;
  if (choice == "latest") return by_name(state, spec, std::nullopt);
  if (const auto step = whole_number(choice)) return by_name(state, spec, step);
  if (choice.starts_with("job:")) return by_job(state, choice);
  return by_path(choice);
}

// --- verification

std::string described(const StateSource& source) {
  return fmt::format("step {} of {}", source.step, source.job.empty() ? source.store : "job " + source.job);
}

std::string different_model(const nlohmann::json& theirs, const JobSpec& spec) {
  const std::pair<const char*, int64_t> fields[] = {{"n_layer", spec.n_layer},
                                                    {"n_embd", spec.n_embd},
                                                    {"n_head", spec.n_head},
                                                    {"vocab_size", spec.vocab_size},
                                                    {"block_size", spec.block_size}};
  std::string text;
  for (const auto& [name, mine] : fields) {
    const auto found = theirs.find(name);
    if (found == theirs.end() || !found->is_number_integer() || *found == mine) continue;
    text += fmt::format("{}{} is {} there and {} here", text.empty() ? "" : ", ", name, found->get<int64_t>(), mine);
  }
  return text;
}

// A field of a manifest's spec, which may be anybody's JSON: what has another type counts as absent, and what is no object has
// none.
int64_t number_in(const nlohmann::json& theirs, const char* name, int64_t otherwise) {
  const auto found = theirs.find(name);
  return found != theirs.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}
std::string text_in(const nlohmann::json& theirs, const char* name, const std::string& otherwise) {
  const auto found = theirs.find(name);
  return found != theirs.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

// Other fields on which the meaning of the state depends. With local steps the same tensors are moments of the outer step, not
// of AdamW; and float16 has one tensor more.
std::string different_training(const nlohmann::json& theirs, const JobSpec& spec) {
  const int64_t every = number_in(theirs, "sync_every", 1);
  const bool theirs_local = every > 1, mine_local = spec.sync_every > 1;
  if (theirs_local != mine_local) {
    return fmt::format(
        "it was trained {} local steps (sync_every {}), and this job is {}: their optimizer states differ in kind",
        theirs_local ? "with" : "without", every, spec.sync_every);
  }
  if (const std::string biases = text_in(theirs, "biases", "on"); biases != spec.biases)
    return fmt::format("it was trained with biases {}, and this job has them {}: submit with --biases {}", biases, spec.biases,
                       biases);
  if (const std::string tied = text_in(theirs, "tied_head", "on"); tied != spec.tied_head)
    return fmt::format("its head is {} to the embedding, and this job's {}: submit with --tied_head {}",
                       tied == "on" ? "tied" : "not tied", spec.tied_head == "on" ? "is" : "is not", tied);
  const std::string dtype = text_in(theirs, "dtype", spec.dtype);
  if ((dtype == "float16") != (spec.dtype == "float16")) {
    return fmt::format("its dtype is {}, and this job's {}: the loss scale of float16 is part of its state alone", dtype,
                       spec.dtype);
  }
  return {};
}

using OpenedStore = storage::Result<std::unique_ptr<storage::ObjectStore>>;

// Both places of a job's checkpoints, where the service sees both; else the one that it sees.
OpenedStore with_copy(OpenedStore store, const StateSource& source, const std::vector<std::string>& roots) {
  auto copy = storage::open_store(source.copy, source.job, {.missing = storage::MissingFolder::kFail, .roots = roots});
  if (!copy) return store;
  return store ? storage::join_places(*std::move(store), *std::move(copy)) : std::move(copy);
}

// Verifies a checkpoint, and fills in its step and hash from the manifest. The error says why the checkpoint cannot be used. A
// shared folder of a job that this machine does not see is no error.
tl::expected<void, std::string> verify(StateSource& source, const JobSpec& spec, const std::string& data_dir,
                                       const std::vector<std::string>& roots) {
  const std::string own = objects_folder(data_dir, source.job);
  const std::string folder = source.store.empty() ? own : without_scheme(source.store);
  // This check comes first: a user who may not read a folder is not told either what is in it.
  const std::vector<std::string> within = source.store.empty() ? std::vector<std::string>{} : roots;
  if (const auto allowed = storage::check_roots(folder, within); !allowed) return tl::unexpected(allowed.error().message);
  const bool in_s3 = storage::is_s3(source.store);
  std::error_code ignored;
  const bool has_copy = !source.copy.empty();
  if (!in_s3 && !fs::is_directory(folder, ignored) && !(has_copy && source.store.empty())) {
    if (!source.store.empty() && !source.job.empty()) return {};
    return tl::unexpected(fmt::format("there is no folder {} on the service's machine", folder));
  }
  auto store = storage::open_store(folder, source.store.empty() ? "" : source.job,
                                   {.missing = storage::MissingFolder::kFail, .roots = within});
  if (has_copy) store = with_copy(std::move(store), source, roots);
  // The service may have no credentials for what its workers have: they verify what they read, too.
  const bool unseen = in_s3 && !store && store.error().code == storage::Error::Code::kRefused && !source.job.empty();
  if (unseen) return {};
  if (!store) return tl::unexpected(store.error().message);
  if (source.step < 0) {
    const auto steps = storage::list_checkpoints(**store);
    if (!steps) return tl::unexpected(steps.error().message);
    if (steps->empty()) return tl::unexpected(fmt::format("{} holds no checkpoint", folder));
    source.step = steps->back();
  }
  const auto manifest = storage::verify_checkpoint(**store, source.step);
  if (!manifest) return tl::unexpected(manifest.error().message);
  source.state_hash = manifest->state_hash;
  if (std::string why = cannot_go_on(manifest->spec, spec); !why.empty()) return tl::unexpected(std::move(why));
  return {};
}

}  // namespace

std::string cannot_go_on(const nlohmann::json& theirs, const JobSpec& spec) {
  const std::string difference = different_model(theirs, spec);
  return difference.empty() ? different_training(theirs, spec) : "it is of another model: " + difference;
}

OrRefusal<StateSource> checkpoint_of_job(const Coordinator& state, const std::string& id, int64_t step, const char* field) {
  const Job* job = state.find_job(id);
  if (job == nullptr) return refuse_field(field, fmt::format("there is no job {}", id));
  std::vector<Found> found;
  collect(*job, found);
  std::vector<StateSource> all = newest_first(std::move(found));
  if (all.empty()) return refuse_field(field, fmt::format("job {} has no checkpoint", id));
  const auto chosen =
      step < 0 ? std::ranges::max_element(all, {}, &StateSource::step) : std::ranges::find(all, step, &StateSource::step);
  if (chosen == all.end())
    return refuse_field(field, fmt::format("job {} has no checkpoint of step {}; {}", id, step, steps_in_words(all)));
  return *chosen;
}

OrRefusal<ResumePlan> plan_resume(const Coordinator& state, const JobSpec& spec) {
  auto plan = candidates_of(state, spec);
  if (!plan) return plan;
  std::set<std::string> seen;
  for (const StateSource& source : plan->candidates) {
    if (source.job.empty() || !seen.insert(source.job).second) continue;
    if (std::string why = cannot_go_on(to_json(state.find_job(source.job)->membership->spec), spec); !why.empty())
      plan->unfit[source.job] = std::move(why);
  }
  return plan;
}

OrRefusal<ResumeChoice> verify_resume(const ResumePlan& plan, const JobSpec& spec, const std::string& data_dir,
                                      const std::vector<std::string>& checkpoint_roots) {
  std::string passed_over;
  for (size_t i = 0; i < plan.candidates.size(); ++i) {
    StateSource source = plan.candidates[i];
    // A manifest tells the same, where the service sees it.
    const auto unfit = plan.unfit.find(source.job);
    const auto good = unfit == plan.unfit.end() ? verify(source, spec, data_dir, checkpoint_roots)
                                                : tl::expected<void, std::string>(tl::unexpected(unfit->second));
    if (!good) {
      passed_over += fmt::format("{}{}: {}", passed_over.empty() ? "" : "; ", described(source), good.error());
      continue;
    }
    if (spec.total_steps > 0 && source.step > spec.total_steps) {
      return refuse(fmt::format("{} is beyond total_steps {}", described(source), spec.total_steps));
    }
    if (source.step >= 0 && spec.schedule_start > source.step) {
      return refuse_field("schedule_start", beyond_in_words(spec.schedule_start, described(source), source.step));
    }
    ResumeChoice choice{{source}, fmt::format("resumes from the checkpoint of {}", described(source))};
    if (!passed_over.empty()) choice.note += fmt::format(" (falling back: {})", passed_over);
    for (const StateSource& older : std::span(plan.candidates).subspan(plan.may_fall_back ? i + 1 : plan.candidates.size())) {
      const bool is_in_range =
          older.step < 0 || ((spec.total_steps == 0 || older.step <= spec.total_steps) && older.step >= spec.schedule_start);
      if (is_in_range && !plan.unfit.contains(older.job)) choice.sources.push_back(older);
    }
    return choice;
  }
  return refuse(fmt::format("{} cannot be taken: {}", spec.resume_from, passed_over));
}

}  // namespace holdfast::rendezvous
