#include "rendezvous/protocol/foreign_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace holdfast::rendezvous {
namespace {

constexpr ForeignName alias(const char* name, const char* from, const char* field) {
  return {name, from, field, "", "", ""};
}

constexpr ForeignName switched(const char* name, const char* from, const char* field, const char* value) {
  return {name, from, field, value, "", ""};
}

constexpr ForeignName none(const char* name, const char* from, const char* instead) {
  return {name, from, "", "", "", instead};
}

// A field whose values have other names there.
constexpr ForeignName translated(const char* name, const char* from, const char* field, const char* values) {
  return {name, from, field, "", "", "", values};
}

// One value of it asks for what is done anyway.
constexpr ForeignName fixed(const char* name, const char* from, const char* allowed, const char* instead) {
  return {name, from, "", "", allowed, instead};
}

constexpr const char* kGuide = "a training script";
constexpr const char* kNanoGpt = "nanoGPT";
constexpr const char* kTorchrun = "torchrun";
constexpr const char* kHuggingFace = "Hugging Face";

constexpr const char* kRanks =
    "ranks are dealt by the service whenever workers come or go; start `holdfast-worker --server URL` on each node";
constexpr const char* kRendezvous =
    "the service that `holdfast serve` starts is the rendezvous; workers are given its address: `holdfast-worker --server URL`";
constexpr const char* kWandb =
    "curves are on the service's page and, with `holdfast-worker --tensorboard_dir DIR`, in files that TensorBoard and "
    "`wandb sync` read";
constexpr const char* kFolder =
    "checkpoints are kept by the service, or in the folder of --checkpoint_store, which all workers share; logs are the "
    "service's: `holdfast logs JOB`";
constexpr const char* kBackend = "between nodes workers talk over TCP, on CPUs and GPUs alike; leave it away";
constexpr const char* kProcesses =
    "`holdfast-worker --devices all` (or 0,1,3) starts a worker for each device of a node; a job's --nodes counts all of them";
constexpr const char* kProgram = "there is no script to start: workers run jobs that `holdfast submit` describes";
constexpr const char* kOutput = "what a worker says goes to its stderr and to the service: `holdfast logs JOB --follow`";
constexpr const char* kWholeLayers =
    "one layer, the embedding and the activations are on each worker; `--shard optimizer|gradients|parameters` divides the "
    "rest among the workers (ZeRO-1 to -3), and `--recompute block` takes less memory as well";
constexpr const char* kOffload =
    "parameters to compute with stay in the memory of the device; --offload optimizer moves the rest. Leave it away";
constexpr const char* kZeroStages = "0=none 1=optimizer 2=gradients 3=parameters";
constexpr const char* kLoader = "training files are mapped into memory, so nothing has to load them; leave it away";
constexpr const char* kOneDropout =
    "one --dropout P is for the embedding, attention and what is added to the residual stream, as nanoGPT's: write it where "
    "all "
    "of them are P";
constexpr const char* kDeepSpeed =
    "there is no DeepSpeed in it; a job's fields are flags of their own: `holdfast help job_spec`";

constexpr ForeignName kForeignNames[] = {
    // Scripts' flags, as guides write them.
    alias("model_size", kGuide, "model"),
    alias("max_length", kGuide, "block_size"),
    alias("world_size", kGuide, "nodes"),
    alias("num_train_epochs", kHuggingFace, "epochs"),
    alias("logging_steps", kGuide, "log_every"),
    alias("save_steps", kHuggingFace, "checkpoint_every"),
    alias("eval_steps", kHuggingFace, "eval_every"),
    alias("max_steps", kHuggingFace, "total_steps"),
    alias("per_device_train_batch_size", kHuggingFace, "batch_size"),
    alias("max_grad_norm", kHuggingFace, "grad_clip"),
    translated("tie_word_embeddings", kHuggingFace, "tied_head", "true=on false=off"),
    translated("lr_scheduler_type", kHuggingFace, "lr_schedule",
               "cosine=cosine linear=linear constant_with_warmup=constant constant=constant cosine_with_min_lr=cosine "
               "warmup_stable_decay=wsd; all but constant fall to 0 there: add --min_lr 0; warmup_stable_decay falls along a "
               "cosine there, here "
               "in a line; constant has no warm-up there, and the others none unless it is given: add --warmup_steps 0"),
    translated(
        "lr_decay_style", "Megatron-LM", "lr_schedule",
        "cosine=cosine linear=linear constant=constant wsd=wsd; all but constant fall to 0 there unless --min-lr is given: add "
        "--min_lr 0; there is no warm-up there unless it is given: add --warmup_steps 0; wsd falls exponentially there, "
        "here in a line"),
    alias("lr_wsd_decay_iters", "Megatron-LM", "decay_steps"),
    alias("lr_warmup_iters", "Megatron-LM", "warmup_steps"),
    none("embd_pdrop", kHuggingFace, kOneDropout),
    none("attn_pdrop", kHuggingFace, kOneDropout),
    none("resid_pdrop", kHuggingFace, kOneDropout),
    none("hidden_dropout", "Megatron-LM", kOneDropout),
    none("attention_dropout", "Megatron-LM", kOneDropout),
    alias("adam_beta1", kHuggingFace, "beta1"),
    alias("adam_beta2", kHuggingFace, "beta2"),
    alias("save_total_limit", kHuggingFace, "keep_last"),
    switched("fp16", kGuide, "dtype", "float16"),
    switched("bf16", kGuide, "dtype", "bfloat16"),
    none("output_dir", kGuide, kFolder),
    none("model_save_dir", kGuide,
         "the last checkpoint is the model: `holdfast checkpoints JOB` lists it, `holdfast sample --from job:JOB` writes with "
         "it"),
    none("use_chinese", kGuide,
         "any text will do: `holdfast data prepare TEXT --output DIR` makes the file for --train_data_path"),
    fixed("distributed", kGuide, "true", "every job is: --nodes says over how many workers"),
    none("backend", "PyTorch", kBackend),
    fixed("use_wandb", kGuide, "false", kWandb),
    switched("gradient_checkpointing", kHuggingFace, "recompute", "block"),
    none("dataloader_num_workers", kHuggingFace, kLoader),
    none("num_workers", kGuide, kLoader),
    none("pin_memory", kGuide, kLoader),
    none("num_gpus", "DeepSpeed", kProcesses),
    none("deepspeed", "DeepSpeed", kDeepSpeed),
    none("deepspeed_config", "DeepSpeed", kDeepSpeed),
    // The words of its file.
    alias("train_batch_size", "DeepSpeed", "global_batch_size"),
    alias("train_micro_batch_size_per_gpu", "DeepSpeed", "batch_size"),
    alias("gradient_clipping", "DeepSpeed", "grad_clip"),
    none("optimizer", "DeepSpeed",
         "it is AdamW, with --learning_rate, --beta1, --beta2 and --weight_decay, and an epsilon of 1e-8"),
    translated("zero_optimization", "DeepSpeed", "shard", kZeroStages),
    translated("zero", "DeepSpeed", "shard", kZeroStages),
    translated("zero_stage", "DeepSpeed", "shard", kZeroStages),
    translated("offload_optimizer", "DeepSpeed", "offload", "none=none cpu=optimizer"),
    fixed("offload_param", "DeepSpeed", "none", kOffload),
    translated("fsdp", kHuggingFace, "shard",
               "full_shard=parameters true=parameters shard_grad_op=gradients no_shard=none false=none"),
    none("tensor_parallel", "DeepSpeed", kWholeLayers),
    none("tp_size", "DeepSpeed", kWholeLayers),
    none("pipeline", "DeepSpeed", kWholeLayers),
    none("pipeline_parallel_size", "DeepSpeed", kWholeLayers),
    none("test_distributed_communication", kGuide,
         "`holdfast netcheck` measures the network, and `holdfast doctor` looks at the rest"),
    none("data_path", "Megatron-LM",
         "--train_data_path FILE names the tokens, or several files with weights: a.bin:0.7,b.bin:0.3; `holdfast data prepare` "
         "makes them"),
    none("logdir", "TensorBoard", "`holdfast-worker --tensorboard_dir DIR` writes what `tensorboard --logdir DIR` reads"),

    // nanoGPT's train.py.
    alias("max_iters", kNanoGpt, "total_steps"),
    alias("warmup_iters", kNanoGpt, "warmup_steps"),
    alias("log_interval", kNanoGpt, "log_every"),
    alias("eval_interval", kNanoGpt, "eval_every"),
    alias("eval_iters", kNanoGpt, "eval_microbatches"),
    none("out_dir", kNanoGpt, kFolder),
    none("dataset", kNanoGpt,
         "--train_data_path and --valid_data_path name the two files: nanoGPT's train.bin and val.bin can be used as they are"),
    none("lr_decay_iters", kNanoGpt,
         "the learning rate falls to min_lr at total_steps, or within --decay_steps N after the warm-up: lr_decay_iters less "
         "warmup_iters"),
    translated("decay_lr", kNanoGpt, "lr_schedule",
               "true=cosine false=constant; false has no warm-up there: add --warmup_steps 0"),
    translated("bias", kNanoGpt, "biases", "true=on false=off"),
    fixed("compile", kNanoGpt, "false", "there is nothing to compile at the start of a job; leave it away"),
    none("device", kNanoGpt,
         "the workers have devices: `holdfast-worker --device auto|cpu|hip:N`; a job may ask for one: --requires device=hip"),
    fixed("eval_only", kNanoGpt, "false",
          "`holdfast sample` tries a checkpoint; evaluations are a part of training: --eval_every"),
    none("always_save_checkpoint", kNanoGpt, "--checkpoint_every N says how often, --keep_last N how many are kept"),
    fixed("wandb_log", kNanoGpt, "false", kWandb),
    none("wandb_project", kNanoGpt, kWandb),
    none("wandb_run_name", kNanoGpt, "--name gives the job a name, which is its curves' name, too"),

    // torchrun, from PyTorch 1.13 to 2.9.
    alias("nnodes", kTorchrun, "nodes"),
    none("nproc_per_node", kTorchrun, kProcesses),
    none("node_rank", kTorchrun, kRanks),
    none("local_rank", kTorchrun, kRanks),
    none("master_addr", kTorchrun, kRendezvous),
    none("master_port", kTorchrun,
         "`holdfast serve --listen ADDRESS:PORT` says where the service is, 7070 unless told otherwise"),
    none("rdzv_backend", kTorchrun, kRendezvous),
    none("rdzv_endpoint", kTorchrun, kRendezvous),
    none("rdzv_id", kTorchrun, "the service gives each job an id; --name gives it a name besides"),
    none("rdzv_conf", kTorchrun, "how long a collective may stand still is the job's: --collective_timeout_s"),
    none("standalone", kTorchrun,
         "on one machine `holdfast serve`, `holdfast-worker` and `holdfast submit` find each other without a flag"),
    none("max_restarts", kTorchrun,
         "a lost worker restarts nobody, and there may be any number; --retries is for a job that failed"),
    none("monitor_interval", kTorchrun, "a process that ends is seen at once; leave it away"),
    none("start_method", kTorchrun, kProgram),
    none("role", kTorchrun,
         "`holdfast-worker --labels role=NAME` and `holdfast submit --requires role=NAME` keep kinds of workers apart"),
    none("module", kTorchrun, kProgram),
    none("no_python", kTorchrun, kProgram),
    none("run_path", kTorchrun, kProgram),
    none("log_dir", kTorchrun, kOutput),
    none("redirects", kTorchrun, kOutput),
    none("tee", kTorchrun, kOutput),
    none("local_ranks_filter", kTorchrun, kOutput),
    none("logs_specs", kTorchrun, kOutput),
    none("event_log_handler", kTorchrun, "a job's events: `holdfast events JOB --follow`, or a webhook: `holdfast webhooks`"),
    none("duplicate_stdout_filters", kTorchrun, kOutput),
    none("duplicate_stderr_filters", kTorchrun, kOutput),
    none("local_addr", kTorchrun, "`holdfast-worker --interface NAME` says over which network other workers reach this one"),
    none("use_env", kTorchrun, kRanks),
    none("numa_binding", kTorchrun, "start the worker under `numactl`; --threads says how many threads it computes with"),
    none("signals_to_handle", kTorchrun, "SIGTERM and Ctrl-C let a worker finish its step and leave"),
    none("virtual_local_rank", kTorchrun, kRanks),
};

}  // namespace

std::span<const ForeignName> foreign_names() {
  return kForeignNames;
}

const ForeignName* find_foreign_name(std::string_view name) {
  const auto same = [](char a, char b) { return a == b || (a == '-' && b == '_'); };
  const auto found = std::ranges::find_if(
      kForeignNames, [&](const ForeignName& known) { return std::ranges::equal(name, std::string_view(known.name), same); });
  return found == std::end(kForeignNames) ? nullptr : &*found;
}

std::optional<std::string> own_value(const ForeignName& name, std::string_view typed) {
  std::string wanted(typed.substr(0, typed.find(' ')));
  std::ranges::transform(wanted, wanted.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string_view known(name.values);
  std::istringstream pairs{std::string(known.substr(0, known.find(';')))};
  for (std::string pair; pairs >> pair;) {
    const size_t sign = pair.find('=');
    if (pair.substr(0, sign) == wanted) return pair.substr(sign + 1);
  }
  return std::nullopt;
}

std::string foreign_name_in_words(const ForeignName& name) {
  if (*name.field == '\0') return fmt::format("{}'s {} is not taken here: {}", name.from, name.name, name.instead);
  if (*name.values != '\0') return fmt::format("{}'s {} is {} here ({})", name.from, name.name, name.field, name.values);
  if (*name.value == '\0') return fmt::format("{}'s {} is {} here", name.from, name.name, name.field);
  return fmt::format("{}'s {} is {} {} here", name.from, name.name, name.field, name.value);
}

}  // namespace holdfast::rendezvous
