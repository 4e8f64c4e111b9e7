#include "rendezvous/store/watched_store.h"

namespace holdfast::rendezvous {

using When = StoreMoment::When;

JobStore& WatchedStore::writing(const std::string& what) {
  written_.insert(what);
  on_moment_({When::kWrite, written_});
  return inner_;
}

void WatchedStore::begin() {
  written_.clear();
  inner_.begin();
}

void WatchedStore::commit() {
  on_moment_({When::kBeforeCommit, written_});
  inner_.commit();
  on_moment_({When::kAfterCommit, written_});
}

// --- writes

void WatchedStore::save_job(const JobRow& row) {
  writing("job").save_job(row);
}
void WatchedStore::save_worker(const WorkerRow& row) {
  writing("worker").save_worker(row);
}
void WatchedStore::remove_worker(const std::string& worker) {
  writing("worker").remove_worker(worker);
}
void WatchedStore::end_incarnation(const std::string& worker, const std::string& incarnation, const std::string& code) {
  writing("incarnation").end_incarnation(worker, incarnation, code);
}
void WatchedStore::add_generation(const GenerationRow& row) {
  writing("generation").add_generation(row);
}
void WatchedStore::save_checkpoint(const CheckpointRow& row) {
  writing("checkpoint").save_checkpoint(row);
}
void WatchedStore::remove_checkpoint(const std::string& job, int64_t step) {
  writing("checkpoint").remove_checkpoint(job, step);
}
void WatchedStore::save_refusal(const RefusalRow& row) {
  writing("refusal").save_refusal(row);
}
StoredTokens WatchedStore::load_tokens() {
  return inner_.load_tokens();
}
void WatchedStore::save_token(const TokenRow& row) {
  writing("token").save_token(row);
}
void WatchedStore::remove_token(const std::string& id) {
  writing("token").remove_token(id);
}
StoredWebhooks WatchedStore::load_webhooks() {
  return inner_.load_webhooks();
}
void WatchedStore::save_webhook(const WebhookRow& row) {
  writing("webhook").save_webhook(row);
}
void WatchedStore::remove_webhook(const std::string& id) {
  writing("webhook").remove_webhook(id);
}
void WatchedStore::save_delivery(const DeliveryRow& row) {
  writing("delivery").save_delivery(row);
}
void WatchedStore::remove_delivery(int64_t id) {
  writing("delivery").remove_delivery(id);
}
void WatchedStore::save_idempotency(const IdempotencyRow& row) {
  writing("idempotency").save_idempotency(row);
}
void WatchedStore::add_event(const EventRow& row) {
  writing(row.kind).add_event(row);
}
void WatchedStore::add_logs(const std::string& job, const std::string& worker, const std::vector<LogLine>& lines) {
  writing("log").add_logs(job, worker, lines);
}
void WatchedStore::add_steps(const std::string& job, const std::vector<StepRow>& rows) {
  writing("step").add_steps(job, rows);
}
void WatchedStore::extend_ledger(const std::string& job, const Generation& generation, int64_t microbatches, int64_t first,
                                 int64_t last) {
  writing("ledger").extend_ledger(job, generation, microbatches, first, last);
}
void WatchedStore::deal_anew(const std::string& job, int64_t step, const std::vector<DealtShare>& shares) {
  writing("ledger").deal_anew(job, step, shares);
}
void WatchedStore::void_steps(const std::string& job, int64_t first, int64_t by_generation) {
  writing("ledger").void_steps(job, first, by_generation);
}
bool WatchedStore::forget_old(int64_t now_ms) {
  return writing("retention").forget_old(now_ms);
}

// --- reads

StoreContents WatchedStore::load() {
  return inner_.load();
}
std::optional<IdempotencyRow> WatchedStore::find_idempotency(const std::string& key) {
  return inner_.find_idempotency(key);
}

}  // namespace holdfast::rendezvous
