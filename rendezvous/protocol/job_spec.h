// The job spec: everything a user asks for in one job. JSON fields and command-line flags have the names of the members.
//
// Promises: parse_job_spec reports every unknown, ill-typed and out-of-range field in one answer. A spec that parses can be
// run. It returns the resolved spec, with every default filled in; that spec is stored, shown and handed to workers.
// Thread: any; everything here is pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::rendezvous {

struct JobSpec {
  std::string kind = "train";  // train|serve: of a job that serves, the fields under "serving" count, and those of every job
  std::string name;
  std::map<std::string, std::string> labels;
  std::string train_data_path;  // data_source.h; a relative path of a file is below the workers' --data_root
  std::string valid_data_path;  // likewise; "": no evaluation

  // tiny|small|medium|large|xl: sets the five fields below. A field that is given by itself wins.
  std::string model = "tiny";
  int64_t n_layer = 6, n_embd = 384, n_head = 6, vocab_size = 50257, block_size = 512;

  int64_t batch_size = 4;                   // sequences in a microbatch
  int64_t gradient_accumulation_steps = 1;  // microbatches in a step for each nominal node
  int64_t nodes = 1;                        // the nominal world size
  int64_t global_batch_size = 0;            // sequences in a step; 0: batch_size * gradient_accumulation_steps * nodes
  int64_t min_nodes = 1;
  int64_t max_nodes = 0;       // 0: one for each unit that can be dealt (dealt_units)
  int64_t total_steps = 1000;  // 0: `epochs` says it, once the length of the training data is known (steps_over)
  int64_t epochs = 0;          // passes over the training data; 0: total_steps says how long

  std::string dtype = "bfloat16";  // float32|bfloat16|float16
  std::string recompute = "none";  // none|attention|block
  std::string biases = "on";       // on|off
  std::string tied_head = "on";    // on|off
  double dropout = 0;              // probability, in training
  // If min_lr is left out, it is learning_rate / 10. If warmup_steps is left out, it is at most total_steps / 10.
  double learning_rate = 6e-4, min_lr = 6e-5, weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, grad_clip = 1.0;
  int64_t warmup_steps = 100;  // -1: as if it were left out, of steps that are not known yet
  // model/optimizer.h says how the rate goes.
  std::string lr_schedule = "cosine";  // cosine|linear|constant|wsd
  int64_t decay_steps = 0;             // 0: all that come after the warm-up; of wsd the last tenth
  int64_t schedule_start = 0;          // the step at which the warm-up begins
  int64_t seed = 0;

  std::string reduction = "exact";  // exact|float
  std::string wire_dtype;           // a name in wire_types.h that goes with `reduction`; "": the reduction's default
  std::string overlap = "on";       // on|off
  // Local AdamW steps of each replica in one step of the job. Above 1: the job has `nodes` replicas, and its step is an outer
  // step (Nesterov, with the two numbers below) over the mean of their changes. total_steps, warmup_steps and every other
  // count of steps then count outer steps.
  int64_t sync_every = 1;
  double outer_learning_rate = 0.7, outer_momentum = 0.9;
  // The state divided among the workers, each part with `replicas` owners: none|optimizer (AdamW's
  // moments)|gradients|parameters, each with those before. auto: the service chooses one for the workers that are there;
  // workers never get this word.
  std::string shard = "none";
  int64_t replicas = 2;
  std::string ring_tls = "off";    // on|off: TLS 1.3 between workers
  std::string offload = "none";    // none|optimizer: on a GPU, float32 parameters and moments are in the host's memory
  int64_t checkpoint_every = 100;  // steps; 0: only at the end, on pause and on stop
  int64_t keep_last = 3;           // checkpoints; 0: all
  // A folder that all workers share ("file:///…" or a path), or "s3://…"; "": the service keeps them.
  std::string checkpoint_store;
  std::string checkpoint_copy;       // another such place, to which each checkpoint is copied; "": none
  double copy_mib_per_s = 32;        // the copy's rate on average; 0: as fast as it goes
  int64_t eval_every = 0;            // steps; 0: never
  int64_t eval_microbatches = 8;     // per evaluation
  int64_t log_every = 100;           // steps; 0: never
  int64_t hash_every = 0;            // steps; 0: every checkpoint_every, and at the end
  int64_t max_refused_steps = 10;    // the job fails after so many steps in a row whose loss or gradient is not finite
  double collective_timeout_s = 30;  // a collective in which no byte moves for so long has failed
  std::string recovery = "memory";   // memory|checkpoint
  int64_t priority = 0;              // higher runs first
  // The service alone uses these five; workers do not get them (to_json_for_workers).
  // "requires" in JSON: properties that a worker must have (scheduler/requirements.h).
  std::map<std::string, std::string> requirements;
  std::string after;        // a job's id or name: this job begins when that job has succeeded
  int64_t max_runtime = 0;  // seconds in state running; 0: no bound
  int64_t retries = 0;      // how often the job begins again after a failure
  double retry_delay = 10;  // seconds before the first retry; doubled each time

  std::string init_from;    // "": initial weights of the seed | a path on the workers or job:ID[@STEP] (initial_source.h):
                            // another model's
  std::string resume_from;  // "" | latest | STEP | job:ID[@STEP] | path

  // serving: texts of the model in init_from, by replicas (the job's workers) behind the service's /v1/completions
  std::string precision = "bfloat16";  // float32|bfloat16|float16, or int8|int4: bfloat16, with weights so short
  std::string follow = "off";          // on|off: the newest checkpoint of the job in init_from, whenever there is a newer one
  std::string tokenizer;               // a folder on the workers; "": that of the training data of the job in init_from
  int64_t stages = 1;                  // the workers of one replica, each with a part of the model's layers

  bool serves() const { return kind == "serve"; }
  // Whether the job's state can be divided at all.
  bool may_be_divided() const { return reduction == "exact" && sync_every == 1; }
  // Whether a worker has the gradients, and the parameters, of its own parts alone.
  bool divides_gradients() const { return shard == "gradients" || divides_parameters(); }
  bool divides_parameters() const { return shard == "parameters"; }
  // M: the microbatches in a step of the job; with sync_every above 1, in all local steps of all replicas together.
  int64_t microbatches() const;
  // The number of units that are dealt to ranks and summed: microbatches, or with sync_every above 1 the `nodes` replicas.
  int64_t dealt_units() const;
  int64_t microbatches_per_dealt_unit() const { return microbatches() / dealt_units(); }
  int64_t tokens_per_step() const;
  // The steps of this job with training data of `data_tokens` tokens: total_steps, or those that `epochs` passes over the
  // data's sequences take, the last one rounded up. 0: not known, for data_tokens is 0.
  int64_t steps_over(int64_t data_tokens) const;
  // The same job as one of so many steps, without epochs.
  JobSpec with_steps_over(int64_t data_tokens) const;
  bool operator==(const JobSpec&) const = default;
};

struct FieldError {
  std::string field;    // "n_head"
  std::string message;  // "6 does not divide n_embd 400: choose a divisor such as 5, 8 or 10"
};

// The spec with all defaults filled in, or every error that was found.
tl::expected<JobSpec, std::vector<FieldError>> parse_job_spec(const nlohmann::json& json);
nlohmann::json to_json(const JobSpec& spec);
// Leaves out the fields that only the service uses, because workers of older releases would refuse them as unknown.
nlohmann::json to_json_for_workers(const JobSpec& spec);
// Reads a spec that to_json wrote (from the database or a directive). Throws std::invalid_argument if it is not a valid spec.
JobSpec job_spec_from_json(const nlohmann::json& json);

// A field as the command line and the documentation show it: type, default, range and one line of help.
struct SpecField {
  std::string name, type, default_value, range, help;
  std::string group;                 // "Run", "Queue", "Model", "Optimizer", "Machinery": fields that people read together
  std::vector<std::string> choices;  // the only words that are allowed; empty: any text
};
const std::vector<SpecField>& job_spec_fields();

// The microbatches [first, last) that `rank` computes. 6 microbatches over 4 ranks are dealt as 2, 2, 1, 1.
struct Share {
  int64_t first, last;
};
Share deal(int64_t microbatches, int world_size, int rank);

}  // namespace holdfast::rendezvous
