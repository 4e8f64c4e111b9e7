// The job spec: what a user asks for. JSON fields and command-line flags are these names, one to one.
//
// Promises: parse_job_spec names every unknown, ill-typed and out-of-range field at once; a spec that parses can be run.
// The resolved spec (every default filled in) is what is stored, shown and handed to workers.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::rendezvous {

struct JobSpec {
  std::string name;
  std::map<std::string, std::string> labels;
  std::string train_data_path;  // on the workers; relative paths are below their --data_root
  std::string valid_data_path;  // "" for none

  // model: tiny|small|medium|large|xl sets the five below it; each can be given by itself and wins.
  std::string model = "tiny";
  int64_t n_layer = 6, n_embd = 384, n_head = 6, vocab_size = 50257, block_size = 512;

  int64_t batch_size = 4;                   // sequences in a microbatch
  int64_t gradient_accumulation_steps = 1;  // per nominal node
  int64_t nodes = 1;                        // the nominal world size
  int64_t global_batch_size = 0;            // sequences in a step; 0: batch_size * gradient_accumulation_steps * nodes
  int64_t min_nodes = 1;
  int64_t max_nodes = 0;  // 0: as many as there are microbatches
  int64_t total_steps = 1000;

  std::string dtype = "bfloat16";  // float32|bfloat16|float16
  std::string recompute = "none";  // none|attention|block
  // min_lr left out: learning_rate / 10; warmup_steps left out: at most total_steps / 10.
  double learning_rate = 6e-4, min_lr = 6e-5, weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, grad_clip = 1.0;
  int64_t warmup_steps = 100;
  int64_t seed = 0;

  std::string reduction = "exact";  // exact|float
  std::string wire_dtype;           // a name in wire_types.h that goes with `reduction`; "": its default
  std::string overlap = "on";       // on|off
  // Above 1: a step is one outer step (Nesterov, with the two numbers below) over the mean of what `nodes` replicas did in so
  // many local AdamW steps each. total_steps, warmup_steps and all that counts steps count outer ones.
  int64_t sync_every = 1;
  double outer_learning_rate = 0.7, outer_momentum = 0.9;
  int64_t checkpoint_every = 100;  // steps; 0: only at the end, on pause and on stop
  int64_t keep_last = 3;           // checkpoints; 0 keeps all
  std::string checkpoint_store;    // "" : kept by the service; else a folder ("file:///…" or a path) all workers share
  int64_t eval_every = 0;          // steps; 0: never
  int64_t eval_microbatches = 8;   // per evaluation
  int64_t hash_every = 0;          // steps; 0: every checkpoint_every, and at the end
  int64_t max_refused_steps = 10;  // in a row: so many steps whose loss or gradient is not finite end the job
  double collective_timeout_s = 30;
  std::string recovery = "memory";  // memory|checkpoint
  int64_t priority = 0;             // higher runs first
  // Of the service's own concern, not told to workers (to_json_for_workers):
  std::map<std::string, std::string>
      requirements;         // "requires" in JSON: what a worker must be or have; scheduler_requirements.h
  std::string after;        // a job's id or name: begins when that one has succeeded
  int64_t max_runtime = 0;  // seconds in state running; 0: no bound
  int64_t retries = 0;      // how often it begins again after a failure
  double retry_delay = 10;  // seconds before the first retry; doubled each time

  std::string resume_from;  // "" | latest | STEP | job:ID[@STEP] | path

  // M: microbatches in a step of the job; with sync_every above 1, of all its local steps.
  int64_t microbatches() const;
  // What is dealt to ranks and summed: microbatches, or with sync_every above 1 replicas, `nodes` of them.
  int64_t dealt_units() const;
  int64_t microbatches_per_dealt_unit() const { return microbatches() / dealt_units(); }
  int64_t tokens_per_step() const;
  bool operator==(const JobSpec&) const = default;
};

struct FieldError {
  std::string field;    // "n_head"
  std::string message;  // "6 does not divide n_embd 400: choose a divisor such as 5, 8 or 10"
};

// The spec with all defaults filled in, or every error.
tl::expected<JobSpec, std::vector<FieldError>> parse_job_spec(const nlohmann::json& json);
nlohmann::json to_json(const JobSpec& spec);
// Without what only the service looks at: a worker of an older release knows no such fields.
nlohmann::json to_json_for_workers(const JobSpec& spec);
// Of a spec that to_json wrote (the database, a directive): throws on anything amiss.
JobSpec job_spec_from_json(const nlohmann::json& json);

// For the command line and the documentation: every field, its type, default, range and one line of help.
struct SpecField {
  std::string name, type, default_value, range, help;
  std::string group;                 // "Run", "Model", "Optimizer", "Machinery": fields that people read together
  std::vector<std::string> choices;  // the only words it takes; empty: any
};
const std::vector<SpecField>& job_spec_fields();

// "6 microbatches over 4 ranks: 2, 2, 1, 1": the half-open range of microbatches that `rank` computes.
struct Share {
  int64_t first, last;
};
Share deal(int64_t microbatches, int world_size, int rank);

}  // namespace holdfast::rendezvous
