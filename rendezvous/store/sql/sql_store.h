// The job store in the tables of an SQL database. An engine's own store derives from it: how the database is opened, and what
// can happen to it from outside.
//
// Nested values (a registration, members, a source) are JSON in one column: nobody queries inside. Everything else as in
// JobStore.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/record_limits.h"
#include "rendezvous/store/sql/access.h"
#include "rendezvous/store/sql/database.h"
#include "rendezvous/store/sql/ledger.h"
#include "rendezvous/store/sql/logs.h"
#include "rendezvous/store/sql/metrics.h"
#include "rendezvous/store/sql/retention.h"

namespace holdfast::rendezvous {

class SqlStore : public JobStore, public Records {
 public:
  SqlStore(std::unique_ptr<SqlDatabase> database, const Retention& retention)
      : db_(std::move(database)), retention_(retention) {}

  void begin() override { db_->begin(); }
  void commit() override { db_->commit(); }
  void check_files() override {}
  void confirm() override { db_->confirm(); }

  StoreContents load() override;
  void save_job(const JobRow& row) override;
  void save_worker(const WorkerRow& row) override;
  void remove_worker(const std::string& worker) override;
  void end_incarnation(const std::string& worker, const std::string& incarnation, const std::string& code) override;
  void add_generation(const GenerationRow& row) override;
  void save_checkpoint(const CheckpointRow& row) override;
  void remove_checkpoint(const std::string& job, int64_t step) override;
  void save_refusal(const RefusalRow& row) override;
  void save_idempotency(const IdempotencyRow& row) override;
  std::optional<IdempotencyRow> find_idempotency(const std::string& key) override;
  StoredTokens load_tokens() override { return access_.load_tokens(); }
  void save_token(const TokenRow& row) override { access_.save(row); }
  void remove_token(const std::string& id) override { access_.remove_token(id); }
  StoredWebhooks load_webhooks() override { return access_.load_webhooks(); }
  void save_webhook(const WebhookRow& row) override { access_.save(row); }
  void remove_webhook(const std::string& id) override { access_.remove_webhook(id); }
  void save_delivery(const DeliveryRow& row) override { access_.save(row); }
  void remove_delivery(int64_t id) override { access_.remove_delivery(id); }
  void add_event(const EventRow& row) override;
  void add_logs(const std::string& job, const std::string& worker, const std::vector<LogLine>& lines) override {
    logs_.add(job, worker, lines);
  }
  void add_steps(const std::string& job, const std::vector<StepRow>& rows) override { metrics_.add(job, rows); }
  void extend_ledger(const std::string& job, const Generation& generation, int64_t microbatches, int64_t first,
                     int64_t last) override {
    ledger_.extend(job, generation, microbatches, first, last);
  }
  void deal_anew(const std::string& job, int64_t step, const std::vector<DealtShare>& shares) override {
    ledger_.deal_anew(job, step, shares);
  }
  void void_steps(const std::string& job, int64_t first, int64_t by_generation) override {
    ledger_.void_steps(job, first, by_generation);
    metrics_.void_steps(job, first);
  }
  void skip_ids(int64_t now_ms) override;
  bool forget_old(int64_t now_ms) override { return old_.forget(now_ms); }
  Records& records() override { return *this; }

  std::vector<EventRow> events(const std::string& job, int64_t after, int64_t limit) override;
  std::vector<StepRow> steps(const std::string& job, int64_t after, int64_t limit) override {
    return metrics_.rows(job, after, limit);
  }
  int64_t folded_to(const std::string& job) override { return metrics_.folded_to(job); }
  int64_t newest_event_id(const std::string& job) override;
  int64_t newest_step_id(const std::string& job) override { return metrics_.newest_id(job); }
  std::vector<CurvePoint> curve(const std::string& job, int64_t at_most) override { return metrics_.curve(job, at_most); }
  LogPage logs(const LogQuery& query, int64_t limit) override { return logs_.page(query, limit); }
  int64_t before_newest_logs(const LogQuery& query, int64_t count) override { return logs_.before_newest(query, count); }
  StepRange ledger_range(const std::string& job) override { return ledger_.range(job); }
  std::vector<LedgerRow> ledger(const std::string& job, const StepRange& range) override { return ledger_.rows(job, range); }
  std::vector<StepDigest> digests(const std::string& job, const StepRange& range) override {
    return metrics_.digests(job, range);
  }

 protected:
  SqlDatabase& database() { return *db_; }
  SqlMetrics& metrics() { return metrics_; }

 private:
  std::vector<JobRow> load_jobs();
  std::vector<WorkerRow> load_workers();
  std::vector<GenerationRow> load_generations();
  std::vector<CheckpointRow> load_checkpoints();

  const std::unique_ptr<SqlDatabase> db_;
  const Retention retention_;
  SqlLedger ledger_{*db_};
  SqlAccess access_{*db_};
  SqlMetrics metrics_{*db_};
  SqlLogs logs_{*db_, retention_};
  SqlRetention old_{*db_, retention_, logs_};
};

}  // namespace holdfast::rendezvous
