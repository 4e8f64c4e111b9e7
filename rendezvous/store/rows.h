// The rows of the service's store: plain values, in the units in which they are kept. Times are wall time in milliseconds since
// 1970.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/membership/flapping.h"
#include "rendezvous/membership/state.h"

namespace holdfast::rendezvous {

//   read    looks at everything but secrets
//   submit  and submits jobs, and steers them
//   admin   and drains workers, makes tokens and webhooks
//   worker  is apart: what a worker needs, and nothing of what people do
enum class Role : uint8_t { kRead, kSubmit, kAdmin, kWorker };
const char* role_name(Role role);
std::optional<Role> role_from(std::string_view name);

struct TokenRow {
  std::string id;  // "t3"
  std::string name;
  Role role = Role::kRead;
  std::string digest;                                   // SHA-256 of the secret, hex
  int64_t created_ms = 0, expires_ms = 0, used_ms = 0;  // wall time; 0: never
  bool of_file = false;                                 // admin.token or worker.token of the data directory
};

struct WebhookRow {
  std::string id;  // "w2"
  std::string url;
  std::vector<std::string> states;  // that it is told of; empty: all
  std::string secret;
  int64_t created_ms = 0;
};
struct DeliveryRow {
  int64_t id = 0;  // of the order in which things happened
  std::string webhook, body;
  int64_t made_ms = 0, due_ms = 0;  // wall time
  int64_t tries = 0;
};
struct StoredWebhooks {
  std::vector<WebhookRow> rows;
  std::vector<DeliveryRow> deliveries;
  int64_t last_number = 0, last_delivery = 0;
};

struct JobRow {
  std::string id;
  int64_t number = 0;
  std::string name, spec;  // the resolved spec as JSON
  std::string state, reason, stage, cause, intent;
  int64_t min_nodes = 1, nodes = 1, max_nodes = 1;
  int64_t committed_step = 0, restarts = 0, lineage = 0;
  std::string data_digest, numerics;
  std::string resume;  // StateSources as JSON
  int64_t submitted_ms = 0, started_ms = 0, finished_ms = 0;
  std::optional<double> loss, validation_loss;
  std::string state_hash;
  int64_t state_hash_step = -1;
  int64_t refused_steps = 0;
  std::string queueing = "{}";  // the queue's knowledge of it, as JSON
  bool operator==(const JobRow&) const = default;
};

struct WorkerRow {
  RegisterRequest registration;
  std::string life;  // alive | lost | left
  bool draining = false;
  std::string job, last_job;
  int64_t after_generation = 0;  // of `job` when it was given to the worker
  int64_t lost_generation = 0;   // of `last_job` when the worker was lost
  int64_t seen_ms = 0;           // wall time of the last change of this row
  LossRecord losses;
  int64_t log_batch = 0;  // the newest whose lines were added
};

struct GenerationRow {
  std::string job;
  Generation generation;
  int64_t formed_ms = 0;  // for people who look into the database; not read back
};

struct CheckpointRow {
  std::string job;
  CheckpointRecord record;
  bool unreadable = false;
};

struct EventRow {
  int64_t id = 0, time_ms = 0;
  std::string job, worker;
  int64_t generation = 0;
  std::string kind, message;
  std::string actor;  // the name of the token that asked for it; "": nobody did
};
struct LogRow {
  int64_t id = 0;  // the line's number in its job's log: 1, 2, 3 …
  std::string job, worker;
  LogLine line;
  int64_t dropped = 0;  // > 0: not a line but word of so many that are not kept, up to this number
};
struct LogQuery {
  std::string job;
  int64_t after = 0;   // a line's number
  std::string worker;  // "": of all
  std::string levels;  // " warning error ", each between blanks; "": all
  bool operator==(const LogQuery&) const = default;
};
struct LogPage {
  std::vector<LogRow> rows;
  int64_t read_to = 0;    // every line up to this one was looked at
  bool more = false;      // there are lines after it, also where a filter left nothing of the page
  int64_t looked_at = 0;  // lines: what the page cost
};
struct StepRow {
  int64_t id = 0, time_ms = 0;
  std::string job;
  int64_t generation = 0;
  int64_t world_size = 0;  // of that generation; 0: not known here
  StepPoint point;
};
// A point of a training curve, for one step or a stretch: sums of tokens and seconds; means over those of the losses and
// gradient norms that are finite, and how many these are; all else as the last step has it.
struct CurvePoint {
  int64_t first_step = 0, last_step = 0, steps = 0;
  int64_t time_ms = 0, generation = 0, world_size = 0;
  double loss = 0, loss_min = 0, loss_max = 0;
  int64_t loss_steps = 0;
  double gradient_norm = 0;
  int64_t gradient_steps = 0;
  std::optional<double> validation_loss;  // the newest
  double learning_rate = 0;
  int64_t tokens = 0;
  double step_s = 0, communication_s = 0;
};
// Microbatches [first_microbatch, last_microbatch) of each of the steps first_step..last_step were computed by `rank`.
struct LedgerRow {
  int64_t first_step = 0, last_step = 0, generation = 0;
  int rank = 0;
  std::string worker;
  int64_t first_microbatch = 0, last_microbatch = 0;
  int64_t voided_by = 0;  // the generation that went back below these steps; 0: they count
};
inline constexpr int64_t kCurvePointsMax = 5000;  // that may be asked for
struct StepDigest {
  int64_t step = 0, generation = 0;
  std::string tokens_digest;
};
struct StepRange {  // both included; 0, 0: none
  int64_t first = 0, last = 0;
};
struct RefusalRow {
  std::string job, worker, incarnation, reason;
};
struct IdempotencyRow {
  std::string key, request, job;  // the request as canonical JSON
};

// The state that the service needs at its start. Events, logs, steps and the ledger are read when asked for.
struct StoreContents {
  std::vector<JobRow> jobs;
  std::vector<WorkerRow> workers;
  std::vector<GenerationRow> generations;  // of jobs that have not ended; the last one of each other
  std::vector<CheckpointRow> checkpoints;
  std::vector<RefusalRow> refusals;
  std::map<std::string, std::string> ended_incarnations;  // incarnation -> the code its messages are refused with
};

struct StoredTokens {
  std::vector<TokenRow> rows;  // but those of files
  int64_t last_number = 0;     // of the newest that was ever made
};

}  // namespace holdfast::rendezvous
