// The rules between the fields of a job spec, and the model presets.
//
// The complaint of each rule names the field to change and a value that is right. The defaults break no rule.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "rendezvous/protocol/data_source.h"
#include "rendezvous/protocol/initial_source.h"
#include "rendezvous/protocol/job_spec_fields.h"
#include "rendezvous/protocol/rules/schedule.h"
#include "rendezvous/protocol/wire_types.h"
#include "storage/places/place.h"

namespace holdfast::rendezvous {
namespace {

using Errors = std::vector<FieldError>;

// GPT-2's sizes (Radford et al. 2019, table 2); tiny is ours: 30,142,848 parameters.
constexpr ModelPreset kPresets[] = {
    {"tiny", 6, 384, 6, 50257, 512},      {"small", 12, 768, 12, 50257, 1024}, {"medium", 24, 1024, 16, 50257, 1024},
    {"large", 36, 1280, 20, 50257, 1024}, {"xl", 48, 1600, 25, 50257, 1024},
};

// "5, 8 or 10": the divisors of `value` that are nearest to `wanted`, ascending.
std::string divisors_near(int64_t value, int64_t wanted) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= std::min<int64_t>(value, 1024); ++d) {
    if (value % d == 0) divisors.push_back(d);
  }
  std::ranges::stable_sort(divisors, {}, [&](int64_t d) { return std::abs(d - wanted); });
  divisors.resize(std::min<size_t>(divisors.size(), 3));
  std::ranges::sort(divisors);
  std::string text = fmt::format("{}", divisors[0]);
  for (size_t i = 1; i < divisors.size(); ++i)
    text += fmt::format("{}{}", i + 1 == divisors.size() ? " or " : ", ", divisors[i]);
  return text;
}

void check_model(const JobSpec& spec, Errors& errors) {
  if (spec.n_embd % spec.n_head != 0) {
    errors.push_back({"n_head", fmt::format("{} does not divide n_embd {}: choose a divisor such as {}", spec.n_head,
                                            spec.n_embd, divisors_near(spec.n_embd, spec.n_head))});
  }
}

void check_batch(const JobSpec& spec, Errors& errors) {
  const int64_t below = spec.global_batch_size / spec.batch_size * spec.batch_size, above = below + spec.batch_size;
  if (spec.global_batch_size != below) {
    const std::string choice = below == 0 ? fmt::format("{}", above) : fmt::format("{} or {}", below, above);
    errors.push_back({"global_batch_size", fmt::format("{} is not a multiple of batch_size {}: choose {}",
                                                       spec.global_batch_size, spec.batch_size, choice)});
    return;
  }
  if (const int64_t microbatches = spec.microbatches() / spec.sync_every; microbatches > 65536) {
    errors.push_back({"global_batch_size", fmt::format("makes {} microbatches in a step, and at most 65536 are summed exactly: "
                                                       "choose a larger batch_size or a smaller global batch",
                                                       microbatches)});
    return;
  }
  if (spec.sync_every > 1) return;  // check_sync has other bounds then
  for (const auto& [name, value] :
       {std::pair{"nodes", spec.nodes}, {"min_nodes", spec.min_nodes}, {"max_nodes", spec.max_nodes}}) {
    if (value <= spec.microbatches()) continue;
    errors.push_back(
        {name, fmt::format("{} is more than the {} microbatch(es) in a step, and a worker needs at least one: raise "
                           "gradient_accumulation_steps or global_batch_size, or lower {}",
                           value, spec.microbatches(), name)});
  }
}

// With local steps every nominal node is a replica, and all replicas have the same number of microbatches.
void check_sync(const JobSpec& spec, Errors& errors) {
  if (spec.sync_every == 1) return;
  if (spec.dtype == "float16") {
    errors.push_back({"dtype",
                      "float16 finds its loss scale from step to step, which local steps (sync_every above 1) do not "
                      "share: choose bfloat16 or float32"});
  }
  if (spec.global_batch_size % spec.batch_size != 0) return;  // check_batch complains
  const int64_t microbatches = spec.microbatches() / spec.sync_every;
  if (microbatches % spec.nodes != 0) {
    errors.push_back(
        {"nodes", fmt::format("{} replicas (nodes) do not divide the {} microbatches of a local step, and with "
                              "sync_every above 1 each needs as many: choose global_batch_size {}",
                              spec.nodes, microbatches, (microbatches / spec.nodes + 1) * spec.nodes * spec.batch_size)});
  }
  if (spec.max_nodes > spec.nodes) {
    errors.push_back({"max_nodes", fmt::format("{} is more than the {} replicas (nodes), which are what is shared out with "
                                               "sync_every above 1: raise nodes, or lower max_nodes",
                                               spec.max_nodes, spec.nodes)});
  }
}

void check_membership(const JobSpec& spec, Errors& errors) {
  if (spec.min_nodes > spec.nodes) {
    errors.push_back(
        {"min_nodes", fmt::format("{} is above nodes {}: lower min_nodes or raise nodes", spec.min_nodes, spec.nodes)});
  }
  if (spec.max_nodes != 0 && spec.max_nodes < spec.nodes) {
    errors.push_back(
        {"max_nodes", fmt::format("{} is below nodes {}: raise max_nodes, or leave it out", spec.max_nodes, spec.nodes)});
  }
}

void check_evaluation(const JobSpec& spec, Errors& errors) {
  if (spec.eval_every == 0 || !spec.valid_data_path.empty()) return;
  errors.push_back({"eval_every", "needs something to evaluate on: give valid_data_path"});
}

void check_data(const JobSpec& spec, Errors& errors) {
  if (spec.train_data_path.empty()) {
    errors.push_back({"train_data_path", "is required: the token file to train on, such as data/train.bin"});
    return;
  }
  const auto sources = parse_training_sources(spec.train_data_path);
  if (!sources) {
    errors.push_back({"train_data_path", sources.error()});
  } else if (sources->size() > 1 && spec.epochs > 0) {
    errors.push_back({"epochs",
                      "does not go with a mixture, whose sources are passed through at rates of their own: give "
                      "total_steps"});
  }
}

void check_validation_data(const JobSpec& spec, Errors& errors) {
  if (spec.valid_data_path.empty()) return;
  if (const auto source = parse_validation_source(spec.valid_data_path); !source)
    errors.push_back({"valid_data_path", source.error()});
}

void check_reduction(const JobSpec& spec, Errors& errors) {
  const WireTypeRow* const row = find_wire_type(spec.wire_dtype);
  if (row == nullptr || row->reduction == spec.reduction) return;
  errors.push_back({"wire_dtype", fmt::format("{} does not go with reduction {}: choose {}, or leave it out", spec.wire_dtype,
                                              spec.reduction, wire_types_in_words(spec.reduction))});
}

// The microbatches of a step share the range of the sum, 32767. With more microbatches than this, each has less than 5 bits.
constexpr int64_t kInt16MicrobatchesMax = 1024;

void check_int16_range(const JobSpec& spec, Errors& errors) {
  if (spec.wire_dtype != "int16" || spec.dealt_units() <= kInt16MicrobatchesMax) return;
  errors.push_back({"wire_dtype", fmt::format("int16 sums at most {} microbatches, with 5 bits and a sign for each, and a step "
                                              "has {}: choose int32, a larger batch_size or a smaller global batch",
                                              kInt16MicrobatchesMax, spec.dealt_units())});
}

// Local steps have moments of their own on every worker, and the outer step's momentum takes exp_avg's place.
void check_shard(const JobSpec& spec, Errors& errors) {
  if (spec.shard == "none") return;
  const bool is_chosen = spec.shard == "auto";  // then it is none where nothing else goes
  if (!is_chosen && spec.reduction != "exact") {
    errors.push_back(
        {"shard", fmt::format("{} does not go with reduction {}: the owners of a part must come to the same bits: choose "
                              "reduction exact, or shard none",
                              spec.shard, spec.reduction)});
  }
  if (!is_chosen && spec.sync_every > 1) {
    errors.push_back(
        {"shard", fmt::format("{} does not go with local steps (sync_every {}), which need the whole state on every "
                              "worker: choose none, or sync_every 1",
                              spec.shard, spec.sync_every)});
  }
  const int64_t workers = spec.dealt_units();  // max_nodes may change while it runs
  if (spec.replicas > std::max<int64_t>(workers, JobSpec().replicas)) {
    errors.push_back(
        {"replicas", fmt::format("{} is more than the workers that a step's {} microbatch(es) can be dealt to: choose "
                                 "at most {}",
                                 spec.replicas, workers, workers)});
  }
}

void check_offload(const JobSpec& spec, Errors& errors) {
  if (spec.offload == "none" || (spec.shard != "none" && spec.may_be_divided())) return;
  errors.push_back(
      {"offload", fmt::format("{} goes with a state that is divided: choose shard optimizer, gradients or parameters, "
                              "of which a single worker has all parts, with reduction exact and "
                              "sync_every 1; or offload none",
                              spec.offload)});
}

// A place in S3 with a mistake in it, or with keys, which a spec must not keep.
bool is_wrong_in_s3(const char* field, const std::string& place, Errors& errors) {
  if (!storage::is_s3(place)) return false;
  const auto parsed = storage::parse_s3_place(storage::split_step(place, true).first);
  if (!parsed) errors.push_back({field, parsed.error()});
  return !parsed;
}

void check_store(const JobSpec& spec, Errors& errors) {
  const std::string& store = spec.checkpoint_store;
  if (storage::is_s3(store)) {
    if (const auto parsed = storage::parse_s3_place(store); !parsed) errors.push_back({"checkpoint_store", parsed.error()});
    return;
  }
  if (store.empty() || store.starts_with('/') || store.starts_with("file:///")) return;
  const bool url = store.find("://") != std::string::npos;
  errors.push_back(
      {"checkpoint_store", fmt::format("{} is {}: choose an absolute path of a folder that all workers share, a place in S3 "
                                       "(s3://bucket/prefix), or leave it out and the service keeps the checkpoints",
                                       store, url ? "a kind of store that is not in this version" : "not an absolute path")});
}

void check_copy(const JobSpec& spec, Errors& errors) {
  const std::string& copy = spec.checkpoint_copy;
  if (copy.empty()) return;
  const auto wrong = [&](const std::string& why) { errors.push_back({"checkpoint_copy", why}); };
  if (copy == spec.checkpoint_store) return wrong(copy + " is checkpoint_store, too: name another place");
  if (storage::is_s3(copy)) {
    if (const auto parsed = storage::parse_s3_place(copy); !parsed) wrong(parsed.error());
  } else if (!copy.starts_with('/') && !copy.starts_with("file:///")) {
    wrong(fmt::format("{}: choose an absolute path of a folder that all workers share, or a place in S3 (s3://bucket/prefix)",
                      copy));
  }
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

void check_name(const JobSpec& spec, Errors& errors) {
  if (!spec.name.starts_with('j') || !all_digits(std::string_view(spec.name).substr(1))) return;
  errors.push_back({"name", fmt::format("{} looks like a job id: choose another", spec.name)});
}

void check_resume(const JobSpec& spec, Errors& errors) {
  if (is_wrong_in_s3("resume_from", spec.resume_from, errors)) return;
  if (!spec.resume_from.starts_with("job:")) return;
  const std::string_view rest = std::string_view(spec.resume_from).substr(4);
  const size_t at = rest.find('@');
  const bool step_is_wrong = at != rest.npos && !all_digits(rest.substr(at + 1));
  if (rest.substr(0, at).empty() || step_is_wrong) {
    errors.push_back({"resume_from", fmt::format("{}: expected job:ID or job:ID@STEP, such as job:j1@60", spec.resume_from)});
  }
}

// nanoGPT's words for it, and two beginnings at once.
void check_initial_weights(const JobSpec& spec, Errors& errors) {
  if (is_wrong_in_s3("init_from", spec.init_from, errors)) return;
  if (spec.init_from == "scratch" || spec.init_from == "resume") {
    errors.push_back({"init_from", spec.init_from == "scratch"
                                       ? "scratch: leave it out to start with the seed's weights"
                                       : "resume: give resume_from instead, such as --resume_from latest"});
  } else if (spec.init_from.starts_with("job:") && !parse_initial_source(spec.init_from).of_job()) {
    errors.push_back({"init_from", fmt::format("{}: expected job:ID or job:ID@STEP, such as job:j1@60", spec.init_from)});
  } else if (spec.init_from.starts_with("gpt2") && spec.init_from.find('/') == std::string::npos) {
    errors.push_back(
        {"init_from", fmt::format("{}: nothing is fetched from elsewhere: give the folder on the workers that has its "
                                  "config.json and model.safetensors",
                                  spec.init_from)});
  } else if (!spec.init_from.empty() && !spec.resume_from.empty()) {
    errors.push_back(
        {"init_from", "cannot be given with resume_from, whose checkpoint has the weights: leave one of them out"});
  }
}

void check_served_model(const JobSpec& spec, Errors& errors) {
  if (spec.init_from.empty())
    errors.push_back({"init_from", "is required: the model to serve, such as job:j1, or a folder on the workers"});
  const bool of_job = spec.init_from.starts_with("job:");
  if (spec.follow == "on" && !of_job)
    errors.push_back({"follow", fmt::format("on goes with the checkpoints of a job, and init_from is {}: give job:ID, or off",
                                            spec.init_from)});
  if (spec.tokenizer.empty() && !of_job && !spec.init_from.empty())
    errors.push_back(
        {"tokenizer", "is required where init_from is no job: the folder on the workers that `data prepare` wrote"});
}

void check_stages(const JobSpec& spec, Errors& errors) {
  if (spec.stages > spec.n_layer)
    errors.push_back(
        {"stages", fmt::format("{} is above n_layer {}: a stage has at least one layer", spec.stages, spec.n_layer)});
  const auto needs_workers = [&](const char* field, int64_t value) {
    errors.push_back(
        {field, fmt::format("{} is below stages {}: a replica is that many workers; give at least {}, or leave it out", value,
                            spec.stages, spec.stages)});
  };
  if (spec.nodes < spec.stages) return needs_workers("nodes", spec.nodes);
  if (spec.min_nodes < spec.stages) needs_workers("min_nodes", spec.min_nodes);
}

// The values of labels that workers choose may be anything; `device` and `memory_gib`, which every worker has, have rules.
void check_requirements(const JobSpec& spec, Errors& errors) {
  const auto complain = [&](const std::string& what) { errors.push_back({"requires", what}); };
  if (const auto device = spec.requirements.find("device"); device != spec.requirements.end()) {
    if (const std::string& kind = device->second; kind != "cpu" && kind != "hip" && kind != "cuda")
      complain(fmt::format("device={}: there is no such kind of device: choose cpu, hip or cuda", kind));
  }
  if (const auto memory = spec.requirements.find("memory_gib"); memory != spec.requirements.end()) {
    double gib = 0;
    const char* end = memory->second.data() + memory->second.size();
    const auto [rest, error] = std::from_chars(memory->second.data(), end, gib);
    if (error != std::errc() || rest != end || !std::isfinite(gib) || gib <= 0)
      complain(fmt::format("memory_gib={} is no size: give a number of GiB above 0, such as 24", memory->second));
  }
}

struct Rule {
  std::vector<const char*> reads;
  void (*check)(const JobSpec&, Errors&);
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {{"name"}, check_name},
      {{"train_data_path", "epochs"}, check_data},
      {{"valid_data_path"}, check_validation_data},
      {{"resume_from"}, check_resume},
      {{"init_from", "resume_from"}, check_initial_weights},
      {{"model", "n_embd", "n_head"}, check_model},
      {{"batch_size", "gradient_accumulation_steps", "global_batch_size", "nodes", "min_nodes", "max_nodes", "sync_every"},
       check_batch},
      {{"nodes", "max_nodes", "batch_size", "gradient_accumulation_steps", "global_batch_size", "sync_every", "dtype"},
       check_sync},
      {{"nodes", "min_nodes", "max_nodes"}, check_membership},
      {{"epochs", "total_steps"}, check_length},
      {{"warmup_steps", "total_steps", "schedule_start"}, check_warmup},
      {{"min_lr", "learning_rate"}, check_min_lr},
      {{"lr_schedule", "decay_steps", "warmup_steps", "total_steps", "schedule_start"}, check_schedule},
      {{"schedule_start", "resume_from", "total_steps"}, check_schedule_start},
      {{"eval_every", "valid_data_path"}, check_evaluation},
      {{"reduction", "wire_dtype"}, check_reduction},
      {{"wire_dtype", "batch_size", "gradient_accumulation_steps", "global_batch_size", "nodes"}, check_int16_range},
      {{"shard", "replicas", "reduction", "sync_every", "nodes", "batch_size", "gradient_accumulation_steps",
        "global_batch_size"},
       check_shard},
      {{"offload", "shard", "reduction", "sync_every"}, check_offload},
      {{"checkpoint_store"}, check_store},
      {{"checkpoint_copy", "checkpoint_store"}, check_copy},
      {{"requires"}, check_requirements},
  };
  return all;
}

// Of jobs that serve.
const std::vector<Rule>& serving_rules() {
  static const std::vector<Rule> all = {
      {{"name"}, check_name},
      {{"init_from", "follow", "tokenizer"}, check_served_model},
      {{"init_from"}, check_initial_weights},
      {{"n_embd", "n_head"}, check_model},
      {{"nodes", "min_nodes", "max_nodes"}, check_membership},
      {{"stages", "n_layer", "nodes", "min_nodes"}, check_stages},
      {{"requires"}, check_requirements},
  };
  return all;
}

}  // namespace

const ModelPreset* find_model_preset(const std::string& name) {
  const auto* found = std::ranges::find_if(kPresets, [&](const ModelPreset& preset) { return name == preset.name; });
  return found == std::end(kPresets) ? nullptr : found;
}

Errors broken_rules(const JobSpec& spec, const Errors& wrong) {
  const auto is_wrong = [&](const char* name) {
    return std::ranges::any_of(wrong, [&](const FieldError& error) { return error.field == name; });
  };
  Errors errors;
  for (const Rule& rule : spec.serves() ? serving_rules() : rules()) {
    if (std::ranges::none_of(rule.reads, is_wrong)) rule.check(spec, errors);
  }
  return errors;
}

}  // namespace holdfast::rendezvous
