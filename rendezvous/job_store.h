// The job-store seam: everything of the service that must outlive it.
//
// Promises: what was written between begin() and a commit() that returned is there after kill -9 and power loss, whole;
// what was not committed is not there at all. Ids of events, logs and steps grow and are never used twice.
// Failures to write throw StoreError: the caller must not answer anybody as though it had been written.
// Thread: one at a time; the service's owner thread holds it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "rendezvous/flapping.h"
#include "rendezvous/membership_state.h"
#include "rendezvous/tokens.h"
#include "rendezvous/webhooks.h"

namespace holdfast::rendezvous {

class StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class StoreFull : public StoreError {  // no space for it now
 public:
  using StoreError::StoreError;
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
  std::string queueing = "{}";  // what the queue knows of it, as JSON
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
// What a training curve has of a step, or of a stretch of them: sums of tokens and seconds; means over those of the losses and
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
  std::string data_digest;
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

// What the service needs at its start. Events, logs, steps and the ledger are read when asked for.
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

class JobStore {
 public:
  virtual ~JobStore() = default;

  virtual void begin() = 0;
  virtual void commit() = 0;

  virtual StoreContents load() = 0;
  virtual void save_job(const JobRow& row) = 0;
  virtual void save_worker(const WorkerRow& row) = 0;
  virtual void remove_worker(const std::string& worker) = 0;
  virtual void end_incarnation(const std::string& worker, const std::string& incarnation, const std::string& code) = 0;
  virtual void add_generation(const GenerationRow& row) = 0;
  virtual void save_checkpoint(const CheckpointRow& row) = 0;
  virtual void remove_checkpoint(const std::string& job, int64_t step) = 0;
  virtual void save_refusal(const RefusalRow& row) = 0;
  virtual void save_idempotency(const IdempotencyRow& row) = 0;
  virtual std::optional<IdempotencyRow> find_idempotency(const std::string& key) = 0;
  virtual StoredTokens load_tokens() = 0;
  virtual void save_token(const TokenRow& row) = 0;
  virtual void remove_token(const std::string& id) = 0;  // its number is not used again
  virtual StoredWebhooks load_webhooks() = 0;
  virtual void save_webhook(const WebhookRow& row) = 0;
  virtual void remove_webhook(const std::string& id) = 0;  // and what was to be sent to it
  virtual void save_delivery(const DeliveryRow& row) = 0;
  virtual void remove_delivery(int64_t id) = 0;

  virtual void add_event(const EventRow& row) = 0;
  virtual void add_logs(const std::string& job, const std::string& worker, const std::vector<LogLine>& lines) = 0;
  // Ascending, of one job. A step that is there already, and not voided, is left as it is. The newest steps are kept as they
  // are; older ones only as points of curves, and as digests.
  virtual void add_steps(const std::string& job, const std::vector<StepRow>& rows) = 0;
  // Extends the rows of `generation` to `last` where they end at `first` - 1, else begins new ones.
  virtual void extend_ledger(const std::string& job, const Generation& generation, int64_t microbatches, int64_t first,
                             int64_t last) = 0;
  // The rows of this step, which has some that count, become `shares`; the steps around it keep theirs.
  virtual void deal_anew(const std::string& job, int64_t step, const std::vector<DealtShare>& shares) = 0;
  virtual void void_steps(const std::string& job, int64_t first, int64_t by_generation) = 0;
  // Drops some of what retention says is to go: so little at a time that nobody waits for it. True: there is more.
  virtual bool forget_old(int64_t now_ms) = 0;

  // Ascending by id, above `after`. An empty job means all of them.
  virtual std::vector<EventRow> events(const std::string& job, int64_t after, int64_t limit) = 0;
  virtual std::vector<StepRow> steps(const std::string& job, int64_t after, int64_t limit) = 0;
  // Steps up to this one are no rows of their own any more; 0: all are.
  virtual int64_t folded_to(const std::string& job) = 0;
  // The id of the newest event, of a job or of all; 0: there is none.
  virtual int64_t newest_event_id(const std::string& job) = 0;
  // The id of a job's newest step, to read on after; 0: there is none.
  virtual int64_t newest_step_id(const std::string& job) = 0;
  // All of a job's life in at most so many points, kCurvePointsMax or fewer.
  virtual std::vector<CurvePoint> curve(const std::string& job, int64_t at_most) = 0;
  // Lines are dropped from the oldest on; a page that begins below the oldest begins with word of it.
  virtual LogPage logs(const LogQuery& query, int64_t limit) = 0;
  // The number to read on after for the newest `count` lines that the query asks for, whatever its `after` says.
  virtual int64_t before_newest_logs(const LogQuery& query, int64_t count) = 0;

  virtual StepRange ledger_range(const std::string& job) = 0;  // of all steps that it accounts for
  // Rows that begin in the range, by first step, generation and rank.
  virtual std::vector<LedgerRow> ledger(const std::string& job, const StepRange& range) = 0;
  // Of the steps in the range that are not voided.
  virtual std::vector<StepDigest> digests(const std::string& job, const StepRange& range) = 0;
};

}  // namespace holdfast::rendezvous
