// The service's disk: a job store in memory with the transactions of the real one.
//
// Promises: what was written between begin() and a commit() that returned is in `durable()`, whole; the rest of a service
// that was killed is not there at all (`power_loss`). Refuses by a Violation what no real database would be asked for by a
// sound service: a generation number twice, a step of the ledger twice.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/store/job_store.h"
#include "tests/sim/story.h"

namespace holdfast::sim {

struct LedgerShare {
  int64_t generation = 0;
  int rank = 0;
  std::string worker;
  int64_t first = 0, last = 0;  // microbatches, half open
};

struct Tables {
  std::map<std::string, rendezvous::JobRow> jobs;
  std::map<std::string, rendezvous::WorkerRow> workers;
  std::map<std::string, std::map<int64_t, rendezvous::Generation>> generations;  // by job and number
  std::map<std::string, std::map<int64_t, rendezvous::CheckpointRow>> checkpoints;
  std::map<std::pair<std::string, std::string>, rendezvous::RefusalRow> refusals;
  std::map<std::string, std::string> ended;
  std::map<std::string, std::map<int64_t, rendezvous::StepRow>> steps;                // that count, by job and step
  std::map<std::string, std::map<int64_t, std::vector<LedgerShare>>> ledger;          // that count, by job and step
  std::map<std::string, std::vector<std::pair<int64_t, LedgerShare>>> voided_ledger;  // of steps that were computed again

  const rendezvous::Generation* newest_generation(const std::string& job) const;  // null: there is none yet
};

// The simulated service shows nothing to anybody.
class NoRecords : public rendezvous::Records {
 public:
  std::vector<rendezvous::EventRow> events(const std::string&, int64_t, int64_t) override { return {}; }
  std::vector<rendezvous::StepRow> steps(const std::string&, int64_t, int64_t) override { return {}; }
  int64_t folded_to(const std::string&) override { return 0; }
  int64_t newest_event_id(const std::string&) override { return 0; }
  int64_t newest_step_id(const std::string&) override { return 0; }
  std::vector<rendezvous::CurvePoint> curve(const std::string&, int64_t) override { return {}; }
  rendezvous::LogPage logs(const rendezvous::LogQuery&, int64_t) override { return {}; }
  int64_t before_newest_logs(const rendezvous::LogQuery&, int64_t) override { return 0; }
  rendezvous::StepRange ledger_range(const std::string&) override { return {}; }
  std::vector<rendezvous::LedgerRow> ledger(const std::string&, const rendezvous::StepRange&) override { return {}; }
  std::vector<rendezvous::StepDigest> digests(const std::string&, const rendezvous::StepRange&) override { return {}; }
};

class MemoryStore : public rendezvous::JobStore {
 public:
  explicit MemoryStore(const Story& story) : story_(story) {}

  const Tables& durable() const { return tables_; }
  bool open() const { return open_; }
  void power_loss();  // the open transaction is gone
  // The database is replaced by an older copy; between two lives of the service.
  void put_back(const Tables& copy) { tables_ = copy; }
  // The next commit throws.
  void fail_next_commit() { fails_ = true; }

  void begin() override;
  void commit() override;
  void check_files() override {}
  void confirm() override {}
  void skip_ids(int64_t) override {}
  rendezvous::StoreContents load() override;
  void save_job(const rendezvous::JobRow& row) override;
  void save_worker(const rendezvous::WorkerRow& row) override;
  void remove_worker(const std::string& worker) override;
  void end_incarnation(const std::string& worker, const std::string& incarnation, const std::string& code) override;
  void add_generation(const rendezvous::GenerationRow& row) override;
  void save_checkpoint(const rendezvous::CheckpointRow& row) override;
  void remove_checkpoint(const std::string& job, int64_t step) override;
  void save_refusal(const rendezvous::RefusalRow& row) override;
  void save_idempotency(const rendezvous::IdempotencyRow& row) override;
  rendezvous::StoredTokens load_tokens() override { return {}; }
  void save_token(const rendezvous::TokenRow& row) override;
  void remove_token(const std::string& id) override;
  rendezvous::StoredWebhooks load_webhooks() override { return {}; }
  void save_webhook(const rendezvous::WebhookRow& row) override;
  void remove_webhook(const std::string& id) override;
  void save_delivery(const rendezvous::DeliveryRow& row) override;
  void remove_delivery(int64_t id) override;
  std::optional<rendezvous::IdempotencyRow> find_idempotency(const std::string& key) override;
  void add_event(const rendezvous::EventRow& row) override;
  void add_logs(const std::string& job, const std::string& worker, const std::vector<rendezvous::LogLine>& lines) override;
  void add_steps(const std::string& job, const std::vector<rendezvous::StepRow>& rows) override;
  void extend_ledger(const std::string& job, const rendezvous::Generation& generation, int64_t microbatches, int64_t first,
                     int64_t last) override;
  void deal_anew(const std::string& job, int64_t step, const std::vector<rendezvous::DealtShare>& shares) override;
  void void_steps(const std::string& job, int64_t first, int64_t by_generation) override;
  bool forget_old(int64_t) override { return false; }  // keeps everything
  rendezvous::Records& records() override { return none_; }

 private:
  void write(std::function<void(Tables&)> change);

  const Story& story_;
  NoRecords none_;
  Tables tables_;
  bool open_ = false, fails_ = false;
  std::vector<std::function<void(Tables&)>> changes_;  // of the open transaction, in order
};

}  // namespace holdfast::sim
