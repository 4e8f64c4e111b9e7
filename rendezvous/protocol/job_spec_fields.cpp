// Name, bounds and one line of help for every field of the job spec. A new field of JobSpec needs a row here.
#include "rendezvous/protocol/job_spec_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "rendezvous/protocol/wire_types.h"

namespace holdfast::rendezvous {
namespace {

constexpr size_t kPathBytes = 4096;
constexpr size_t kWordBytes = 64;
constexpr int64_t kMicrobatchesMax = 65536;  // the fixed-point sum keeps log2 of this number of bits free
constexpr int64_t kStepsMax = 1'000'000'000;
constexpr int64_t kEpochsMax = 1'000'000;
constexpr int64_t kNodesMax = 1024;
constexpr int64_t kSecondsMax = 1'000'000'000;

std::vector<FieldRow> rows_of_the_run() {
  return {
      {"name", TextField{&JobSpec::name, 100}, "A name for people; commands take it where they take a job id"},
      {"labels", LabelsField{&JobSpec::labels}, "Words to find the job by, as key=value"},
      {"train_data_path", TextField{&JobSpec::train_data_path, kPathBytes},
       "Token file to train on, as the workers see it (relative: below their --data_root), or one of a data set of the "
       "service (data:NAME, data:NAME/FILE), or several of these with weights: a.bin:0.7,b.bin:0.3",
       "required"},
      {"valid_data_path", TextField{&JobSpec::valid_data_path, kPathBytes},
       "Token file to evaluate on, or one of a data set (data:NAME)"},
      {"nodes", IntegerField{&JobSpec::nodes, 1, kNodesMax}, "Nominal number of workers"},
      {"min_nodes", IntegerField{&JobSpec::min_nodes, 1, kNodesMax}, "With fewer workers than this the job waits"},
      {"max_nodes", IntegerField{&JobSpec::max_nodes, 0, kMicrobatchesMax}, "Take no more workers than this",
       "the number of microbatches; with sync_every above 1, of replicas"},
      {"priority", IntegerField{&JobSpec::priority, -1000, 1000},
       "Higher runs first, and preempts lower ones that have the workers it needs to begin"},
      {"total_steps", IntegerField{&JobSpec::total_steps, 1, kStepsMax},
       "Steps to train for; with sync_every above 1 a step is that many optimizer steps"},
      {"epochs", IntegerField{&JobSpec::epochs, 0, kEpochsMax},
       "Passes over the training data to train for, instead of total_steps; 0: total_steps counts"},
      {"seed", IntegerField{&JobSpec::seed, 0, std::numeric_limits<int64_t>::max()},
       "Decides the initial weights and the data order"},
      {"init_from", TextField{&JobSpec::init_from, kPathBytes},
       "Weights to start with: a folder or file of a GPT-2 in safetensors, or a folder of checkpoints [DIR@STEP], as the "
       "workers see "
       "them; or job:ID[@STEP]",
       "those of the seed"},
      {"resume_from", TextField{&JobSpec::resume_from, kPathBytes},
       "Checkpoint to start from: latest, STEP, job:ID[@STEP] or a folder", "a fresh start"},
  };
}

std::vector<FieldRow> rows_of_the_queue() {
  constexpr bool of_service = true;
  return {
      {"requires", LabelsField{&JobSpec::requirements, true},
       "What its workers must be or have, as key=value: device=cpu|hip|cuda, memory_gib=N (at least), or a worker's label",
       nullptr, of_service},
      {"after", TextField{&JobSpec::after, 100},
       "Job (id or name) that must have succeeded before this one begins; should it fail or be cancelled, this one fails",
       nullptr, of_service},
      {"max_runtime", IntegerField{&JobSpec::max_runtime, 0, kSecondsMax},
       "Seconds of running after which the job stops with a checkpoint and has failed; 0: no bound", nullptr, of_service},
      {"retries", IntegerField{&JobSpec::retries, 0, 1000},
       "How often a job that failed begins again, from its newest checkpoint", nullptr, of_service},
      {"retry_delay", NumberField{&JobSpec::retry_delay, 0, 86400}, "Seconds before the first retry; doubled each time",
       nullptr, of_service},
  };
}

std::vector<FieldRow> rows_of_the_model() {
  return {
      {"model", TextField{&JobSpec::model, kWordBytes, {"tiny", "small", "medium", "large", "xl"}},
       "Sets the five fields below; each can be given by itself and wins"},
      {"n_layer", IntegerField{&JobSpec::n_layer, 1, 1024}, "Transformer layers", "the model's"},
      {"n_embd", IntegerField{&JobSpec::n_embd, 1, 65536}, "Channels", "the model's"},
      {"n_head", IntegerField{&JobSpec::n_head, 1, 1024}, "Attention heads; divides n_embd", "the model's"},
      {"vocab_size", IntegerField{&JobSpec::vocab_size, 2, 65536}, "Tokens there are; ids are 16-bit", "the model's"},
      {"block_size", IntegerField{&JobSpec::block_size, 1, 65536}, "Tokens in a sequence", "the model's"},
      {"dtype", TextField{&JobSpec::dtype, kWordBytes, {"float32", "bfloat16", "float16"}},
       "Type of activations and matrix products; master weights are float32, and float16 finds its loss scale by itself"},
      {"recompute", TextField{&JobSpec::recompute, kWordBytes, {"none", "attention", "block"}},
       "Activations computed again in the backward pass instead of kept: less memory, more time, the same bits"},
      {"biases", TextField{&JobSpec::biases, kWordBytes, {"on", "off"}},
       "off: those of linear layers and LayerNorm stay 0, as with nanoGPT's bias=False"},
      {"tied_head", TextField{&JobSpec::tied_head, kWordBytes, {"on", "off"}},
       "off: the head has a matrix of its own, lm_head.weight, as with Hugging Face's tie_word_embeddings false"},
  };
}

std::vector<FieldRow> rows_of_the_optimizer() {
  return {
      {"dropout", NumberField{&JobSpec::dropout, 0, 1, false, true},
       "In training, the share of embeddings, of attention's weights and of what attention and MLP add that is left out; drawn "
       "by the seed, the step and the place, so the bits are the same at any number of workers"},
      {"batch_size", IntegerField{&JobSpec::batch_size, 1, 65536}, "Sequences in a microbatch"},
      {"gradient_accumulation_steps", IntegerField{&JobSpec::gradient_accumulation_steps, 1, kMicrobatchesMax},
       "Microbatches in an optimizer step per nominal node (nanoGPT's number is that of all GPUs: divide it by nodes)"},
      {"global_batch_size", IntegerField{&JobSpec::global_batch_size, 0, int64_t{1} << 32},
       "Sequences in an optimizer step, at any number of workers", "batch_size x gradient_accumulation_steps x nodes"},
      {"learning_rate", NumberField{&JobSpec::learning_rate, 0, 10, true}, "Largest learning rate"},
      {"min_lr", NumberField{&JobSpec::min_lr, 0, 10}, "Learning rate at the end of the schedule", "learning_rate / 10"},
      {"warmup_steps", IntegerField{&JobSpec::warmup_steps, 0, kStepsMax}, "Steps of linear warm-up",
       "100, or a tenth of the steps from schedule_start on where that is less"},
      {"lr_schedule", TextField{&JobSpec::lr_schedule, kWordBytes, {"cosine", "linear", "constant", "wsd"}},
       "How the learning rate falls to min_lr after the warm-up: along a cosine, in a line, not at all, or late (wsd: it stays "
       "and falls in a line at the end)"},
      {"decay_steps", IntegerField{&JobSpec::decay_steps, 0, kStepsMax},
       "Steps over which it falls: cosine, linear: the first ones after the warm-up; wsd: the last ones",
       "all after the warm-up; with wsd a tenth of the steps from schedule_start on"},
      {"schedule_start", IntegerField{&JobSpec::schedule_start, 0, kStepsMax},
       "With resume_from: the step at which the schedule begins anew, from min_lr up, so that a run that had ended goes on "
       "without a jump of the rate"},
      {"weight_decay", NumberField{&JobSpec::weight_decay, 0, 10}, "AdamW's, on matrices only"},
      {"beta1", NumberField{&JobSpec::beta1, 0, 1, false, true}, "AdamW's decay of the first moment"},
      {"beta2", NumberField{&JobSpec::beta2, 0, 1, false, true}, "AdamW's decay of the second moment"},
      {"grad_clip", NumberField{&JobSpec::grad_clip, 0, 1e6}, "Clip the gradient's global norm to this; 0: never"},
  };
}

std::vector<FieldRow> rows_of_the_machinery() {
  static const std::string wire_help = fmt::format("Type of gradients on the wire: {} for exact; {} for float",
                                                   wire_types_in_words("exact"), wire_types_in_words("float"));
  static const std::string wire_default =
      fmt::format("{} for exact, {} for float", default_wire_type("exact")->name, default_wire_type("float")->name);
  return {
      {"reduction", TextField{&JobSpec::reduction, kWordBytes, {"exact", "float"}},
       "exact: the same bits at any number of workers, through failures"},
      {"wire_dtype", TextField{&JobSpec::wire_dtype, kWordBytes, wire_type_names()}, wire_help.c_str(), wire_default.c_str()},
      {"overlap", TextField{&JobSpec::overlap, kWordBytes, {"on", "off"}},
       "on: gradients go over the wire while a step's last microbatch is computed; the same bits"},
      {"ring_tls", TextField{&JobSpec::ring_tls, kWordBytes, {"on", "off"}},
       "on: everything between workers is encrypted (TLS 1.3), under keys of each generation; the same bits"},
      {"sync_every", IntegerField{&JobSpec::sync_every, 1, 10'000},
       "Optimizer steps of each node alone within a step; above 1 nodes combine what these led to, not gradients (DiLoCo)"},
      {"outer_learning_rate", NumberField{&JobSpec::outer_learning_rate, 0, 10, true},
       "With sync_every above 1: the rate of the outer step"},
      {"outer_momentum", NumberField{&JobSpec::outer_momentum, 0, 1, false, true},
       "With sync_every above 1: Nesterov momentum of the outer step"},
      {"shard", TextField{&JobSpec::shard, kWordBytes, {"none", "optimizer", "gradients", "parameters", "auto"}},
       "Divides the state among the workers, to save memory: optimizer (ZeRO-1), gradients, too (ZeRO-2), or all of it "
       "(parameters; ZeRO-3); auto: the first of these that fits their memory. The same bits"},
      {"replicas", IntegerField{&JobSpec::replicas, 1, kNodesMax},
       "With shard: how many workers keep each part; while one of them lives, nothing is lost"},
      {"offload", TextField{&JobSpec::offload, kWordBytes, {"none", "optimizer"}},
       "With shard, on GPUs: optimizer keeps AdamW's state in the host's memory and computes it there. The same bits"},
      {"checkpoint_every", IntegerField{&JobSpec::checkpoint_every, 0, kStepsMax},
       "Steps between checkpoints; 0: only on pause, on stop and at the end"},
      {"keep_last", IntegerField{&JobSpec::keep_last, 0, 1'000'000}, "Checkpoints to keep; 0 keeps all"},
      {"checkpoint_store", TextField{&JobSpec::checkpoint_store, kPathBytes},
       "For checkpoints: an absolute path of a folder that all workers share, or s3://bucket/prefix", "kept by the service"},
      {"checkpoint_copy", TextField{&JobSpec::checkpoint_copy, kPathBytes},
       "A second place, as checkpoint_store, to which each checkpoint is copied in the background", "none"},
      {"copy_mib_per_s", NumberField{&JobSpec::copy_mib_per_s, 0, 100'000},
       "With checkpoint_copy: MiB a second that the copy may take on average; 0: as fast as it goes"},
      {"eval_every", IntegerField{&JobSpec::eval_every, 0, kStepsMax}, "Steps between evaluations; 0: never"},
      {"eval_microbatches", IntegerField{&JobSpec::eval_microbatches, 1, kMicrobatchesMax}, "Microbatches in an evaluation"},
      {"log_every", IntegerField{&JobSpec::log_every, 0, kStepsMax},
       "Steps between lines about a step in the job's log; 0: none. Its curves have every step, whatever this is"},
      {"hash_every", IntegerField{&JobSpec::hash_every, 0, kStepsMax},
       "Steps between hashes of the state, compared across ranks; 0: every checkpoint_every, and at the end"},
      {"max_refused_steps", IntegerField{&JobSpec::max_refused_steps, 1, kStepsMax},
       "A step whose loss or gradient is not finite is left out and counted; this many in a row end the job"},
      {"collective_timeout_s", NumberField{&JobSpec::collective_timeout_s, 1, 3600},
       "A collective that moves no bytes for this long has failed (seconds)"},
      {"recovery", TextField{&JobSpec::recovery, kWordBytes, {"memory", "checkpoint"}},
       "After a fault go on from the survivors' memory, or from the newest checkpoint"},
  };
}

std::vector<FieldRow> rows_of_serving() {
  std::vector<FieldRow> rows = {
      {"kind", TextField{&JobSpec::kind, kWordBytes, {"train", "serve"}},
       "serve: write texts with the model in init_from, for whoever asks the service at /v1/completions; its workers are "
       "replicas"},
      {"precision", TextField{&JobSpec::precision, kWordBytes, {"float32", "bfloat16", "float16", "int8", "int4"}},
       "With kind serve: the type to compute texts with; int8, int4: bfloat16, with weights of 8 or 4 bits"},
      {"follow", TextField{&JobSpec::follow, kWordBytes, {"on", "off"}},
       "With kind serve: on answers with the newest checkpoint of the job in init_from; texts under way keep theirs"},
      {"tokenizer", TextField{&JobSpec::tokenizer, kPathBytes},
       "With kind serve: the folder that `data prepare` wrote, as the workers see it",
       "beside the training file of the job in init_from"},
      {"stages", IntegerField{&JobSpec::stages, 1, 1024},
       "With kind serve: the workers of one replica, for a model that one of them cannot hold; each has a part of its layers"},
  };
  for (FieldRow& row : rows) row.of = FieldRow::Of::kServing;
  return rows;
}

constexpr struct {
  const char* name;
  std::vector<FieldRow> (*rows)();
} kGroups[] = {{"Run", rows_of_the_run},
               {"Queue", rows_of_the_queue},
               {"Model", rows_of_the_model},
               {"Optimizer", rows_of_the_optimizer},
               {"Machinery", rows_of_the_machinery},
               {"Serving", rows_of_serving}};

constexpr const char* kOfBoth[] = {"name",      "labels",   "nodes",  "min_nodes",   "max_nodes",  "priority",
                                   "init_from", "requires", "after",  "max_runtime", "retries",    "retry_delay",
                                   "n_layer",   "n_embd",   "n_head", "vocab_size",  "block_size", "collective_timeout_s",
                                   "tied_head"};

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string default_of(const FieldRow& row) {
  if (row.default_text != nullptr) return row.default_text;
  const JobSpec spec;
  if (const auto* text = std::get_if<TextField>(&row.kind)) return spec.*text->member;
  if (const auto* integer = std::get_if<IntegerField>(&row.kind)) return fmt::format("{}", spec.*integer->member);
  if (const auto* number = std::get_if<NumberField>(&row.kind)) return fmt::format("{}", spec.*number->member);
  return "";
}

std::vector<std::string> choices_of(const FieldRow& row) {
  const auto* text = std::get_if<TextField>(&row.kind);
  return text == nullptr ? std::vector<std::string>() : text->choices;
}

const char* type_of(const FieldRow& row) {
  static constexpr const char* kNames[] = {"string", "integer", "number", "map"};
  return kNames[row.kind.index()];
}

}  // namespace

const std::vector<FieldRow>& job_spec_table() {
  static const std::vector<FieldRow> table = [] {
    std::vector<FieldRow> all;
    for (const auto& group : kGroups) {
      for (FieldRow& row : group.rows()) all.push_back(std::move(row));
    }
    for (const char* name : kOfBoth) {
      std::ranges::find(all, std::string_view(name), [](const FieldRow& row) { return std::string_view(row.name); })->of =
          FieldRow::Of::kBoth;
    }
    return all;
  }();
  return table;
}

std::string range_text(const FieldRow& row) {
  if (const auto* text = std::get_if<TextField>(&row.kind)) {
    return text->choices.empty() ? fmt::format("at most {} bytes", text->max_bytes) : joined(text->choices);
  }
  if (const auto* integer = std::get_if<IntegerField>(&row.kind)) {
    if (integer->max == std::numeric_limits<int64_t>::max()) return fmt::format("at least {}", integer->min);
    return fmt::format("{} to {}", integer->min, integer->max);
  }
  if (const auto* number = std::get_if<NumberField>(&row.kind)) {
    return fmt::format("{} {}, {} {}", number->above_min ? "above" : "at least", number->min,
                       number->below_max ? "below" : "at most", number->max);
  }
  return "at most 32, keys of letters, digits and ._/-";
}

const std::vector<SpecField>& job_spec_fields() {
  static const std::vector<SpecField> fields = [] {
    std::vector<SpecField> all;
    for (const auto& group : kGroups) {
      for (const FieldRow& row : group.rows()) {
        all.push_back({row.name, type_of(row), default_of(row), range_text(row), row.help, group.name, choices_of(row)});
      }
    }
    return all;
  }();
  return fields;
}

}  // namespace holdfast::rendezvous
