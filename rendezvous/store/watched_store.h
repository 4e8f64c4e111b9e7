// A job store that tells of every write and commit before or after it passes it on.
//
// For drills and tests: what is told decides whether the process lives on. Promises nothing of its own; a moment that
// throws leaves the store inside as if the call had not been made (after a commit: as if it had, which it was).
#pragma once

#include <functional>
#include <set>
#include <string>

#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {

struct StoreMoment {
  enum class When : uint8_t { kWrite, kBeforeCommit, kAfterCommit } when;
  // The kinds of rows that the transaction holds so far: "job", "worker", "generation", "checkpoint", "step" … and the kind of
  // each event.
  const std::set<std::string>& written;
};

class WatchedStore : public JobStore {
 public:
  using OnMoment = std::function<void(const StoreMoment&)>;
  // `inner` outlives it.
  WatchedStore(JobStore& inner, OnMoment on_moment) : inner_(inner), on_moment_(std::move(on_moment)) {}

  void begin() override;
  void commit() override;
  void check_files() override { inner_.check_files(); }
  void confirm() override { inner_.confirm(); }
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
  StoredTokens load_tokens() override;
  void save_token(const TokenRow& row) override;
  void remove_token(const std::string& id) override;
  StoredWebhooks load_webhooks() override;
  void save_webhook(const WebhookRow& row) override;
  void remove_webhook(const std::string& id) override;
  void save_delivery(const DeliveryRow& row) override;
  void remove_delivery(int64_t id) override;
  void add_event(const EventRow& row) override;
  void add_logs(const std::string& job, const std::string& worker, const std::vector<LogLine>& lines) override;
  void add_steps(const std::string& job, const std::vector<StepRow>& rows) override;
  void extend_ledger(const std::string& job, const Generation& generation, int64_t microbatches, int64_t first,
                     int64_t last) override;
  void deal_anew(const std::string& job, int64_t step, const std::vector<DealtShare>& shares) override;
  void void_steps(const std::string& job, int64_t first, int64_t by_generation) override;
  void skip_ids(int64_t now_ms) override { inner_.skip_ids(now_ms); }
  bool forget_old(int64_t now_ms) override;
  Records& records() override { return inner_.records(); }

 private:
  JobStore& writing(const std::string& what);

  JobStore& inner_;
  OnMoment on_moment_;
  std::set<std::string> written_;
};

}  // namespace holdfast::rendezvous
