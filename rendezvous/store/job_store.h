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
#include <utility>
#include <vector>

#include "rendezvous/store/rows.h"

namespace holdfast::rendezvous {

class StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class StoreAway : public StoreError {  // it cannot be written now, and is tried again
 public:
  using StoreError::StoreError;
};
class StoreFull : public StoreAway {  // no space for it now
 public:
  using StoreAway::StoreAway;
};
class LostLeadership : public StoreAway {  // another service writes it now
 public:
  using StoreAway::StoreAway;
};
class StandsBy : public StoreAway {  // another service leads
 public:
  StandsBy(const std::string& why, std::string address) : StoreAway(why), leader(std::move(address)) {}
  std::string leader;  // where that one is reached; "": nobody leads just now
};

// Everything that was recorded of jobs and is only read again: events, logs, steps, the ledger.
class Records {
 public:
  virtual ~Records() = default;

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

// The state of jobs and workers, and the writes of records.
class JobStore {
 public:
  virtual ~JobStore() = default;

  virtual void begin() = 0;
  virtual void commit() = 0;
  // Throws StoreError where what was committed would not be found again: its file was removed or replaced. commit() does the
  // same; this is for a service to which nothing happens. Not while rows are read.
  virtual void check_files() = 0;
  // Throws StoreError unless, at some moment of this call, nobody but this service could write: memory that was read before it
  // was right then. For answers that rest on memory alone; a commit that returned says the same. Not within a transaction.
  virtual void confirm() = 0;

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
  // Ids of events, logs, steps and deliveries go on above all that were given out before this database was replaced by an older
  // copy of itself. For the first start after a restore, and before anything is read; again does no harm.
  virtual void skip_ids(int64_t now_ms) = 0;
  // Drops some of what retention says is to go: so little at a time that nobody waits for it. True: there is more.
  virtual bool forget_old(int64_t now_ms) = 0;

  // The records so far, the open transaction included. Lives as long as the store.
  virtual Records& records() = 0;
};

}  // namespace holdfast::rendezvous
