// How the submit form lays out the job spec's fields. A field that is not named here comes last, so that a newer service's are
// there.

const GROUPS = [
  {
    title: "The run",
    open: true,
    fields: [
      "name",
      "kind",
      "train_data_path",
      "valid_data_path",
      "model",
      "nodes",
      "total_steps",
      "epochs",
      "batch_size",
      "gradient_accumulation_steps",
      "learning_rate",
      "init_from",
      "resume_from",
    ],
  },
  { title: "Serving", open: true, fields: ["precision", "tokenizer", "follow", "stages"] },
  {
    title: "Workers and queue",
    fields: ["min_nodes", "max_nodes", "priority", "requires", "after", "max_runtime", "retries", "retry_delay", "labels"],
  },
  { title: "Model", fields: ["n_layer", "n_embd", "n_head", "vocab_size", "block_size", "tied_head", "dtype", "recompute", "biases"] },
  {
    title: "Optimizer",
    fields: ["global_batch_size", "dropout", "min_lr", "warmup_steps", "lr_schedule", "decay_steps", "schedule_start", "weight_decay", "beta1", "beta2", "grad_clip", "seed"],
  },
  {
    title: "Checkpoints and evaluation",
    fields: ["checkpoint_every", "keep_last", "checkpoint_store", "checkpoint_copy", "copy_mib_per_s", "eval_every", "eval_microbatches", "log_every", "hash_every", "recovery"],
  },
  { title: "Machinery", fields: [] },
];

// [{title, open, fields: [field…]}], each field of the service in one of them.
export function groupFields(fields) {
  const named = new Map(fields.map((field) => [field.name, field]));
  const groups = GROUPS.map(({ title, open = false, fields: names }) => {
    const found = names.filter((name) => named.has(name)).map((name) => named.get(name));
    for (const { name } of found) named.delete(name);
    return { title, open, fields: found };
  });
  groups.at(-1).fields.push(...named.values());
  return groups.filter((group) => group.fields.length > 0);
}
