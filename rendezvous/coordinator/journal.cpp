#include "rendezvous/coordinator/journal.h"

#include <spdlog/spdlog.h>

#include "rendezvous/text/text_bounds.h"

namespace holdfast::rendezvous {
namespace {

constexpr size_t kEventKindsMax = 1000;  // workers also choose kinds; more kinds than this are not counted

}  // namespace

JobStore& Journal::write() {
  if (!in_transaction_) {
    store_.begin();
    ++transactions_;
  }
  in_transaction_ = true;
  return store_;
}

bool Journal::commit() {
  if (!in_transaction_) return false;
  store_.commit();
  in_transaction_ = false;
  return true;
}

void Journal::record(const NewEvent& event) {
  const std::string& kind = event.kind;
  spdlog::info("{}{}{}: {}{}", event.job, event.job.empty() ? "" : " ", kind, event.message,
               actor_.empty() ? "" : " (asked for by " + actor_ + ")");
  if (event_counts_.size() < kEventKindsMax || event_counts_.contains(kind)) ++event_counts_[kind];
  write().add_event({0, clock_.wall_ms(), event.job, event.worker, event.generation, shortened(kind, kWordBytesMax),
                     shortened(event.message, kEventTextBytesMax), actor_});
}

}  // namespace holdfast::rendezvous
