#include "rendezvous/store/leadership.h"

#include <algorithm>
#include <utility>

namespace holdfast::rendezvous {
namespace {

// Two services of which nobody else wants anything, and which do not reach each other, would take the lead from each other
// without end: so seldom, in patiences.
constexpr int64_t kBetweenUnreached = 5;
// A client that is referred to the leader goes there at once; until a service that stands by sees it in the beats, a beat and a
// look go by. Workers ask for something every second, each at another moment.
constexpr int64_t kReferredComeMs = 750, kUnheardMs = 1250;

}  // namespace

Leadership::Leadership(LeadershipTable& table, Leader self, int64_t patience_ms)
    : table_(table), self_(std::move(self)), patience_ms_(patience_ms) {}

bool Leadership::try_to_lead(int64_t now_ms, const SeenOfLeader& seen) {
  if (self_.term > 0 || take_lead()) return true;
  const int64_t beats = table_.beats();
  const bool unreached = nobody_reaches_it(now_ms, beats, seen);
  if (std::exchange(beats_seen_, beats) != beats) seen_ms_ = now_ms;
  if (unreached || now_ms - seen_ms_ > patience_ms_) {
    table_.depose(table_.leader());
    seen_ms_ = heard_ms_ = now_ms;
    referred_seen_ = seen.referred;
    referred_ms_.reset();
    if (unreached) unreached_again_ms_ = now_ms + kBetweenUnreached * patience_ms_;
    return take_lead();  // at once: a leader that reaches the database would take it again
  }
  return false;
}

bool Leadership::take_lead() {
  if (!table_.take_lock()) return false;
  begin_term();
  return true;
}

bool Leadership::nobody_reaches_it(int64_t now_ms, int64_t beats, const SeenOfLeader& seen) {
  if (std::exchange(heard_seen_, beats / kHeard) != beats / kHeard) {
    heard_ms_ = now_ms;
    referred_seen_ = seen.referred;
    referred_ms_.reset();
  } else if (!referred_ms_ && seen.referred != referred_seen_) {
    referred_ms_ = now_ms;
  }
  if (now_ms < unreached_again_ms_) return false;
  const int64_t unheard_ms = now_ms - heard_ms_;
  const bool gives_no_answer = seen.unanswered_since_ms && now_ms - *seen.unanswered_since_ms > patience_ms_;
  if (gives_no_answer && unheard_ms > patience_ms_) return true;
  return referred_ms_ && now_ms - *referred_ms_ > kReferredComeMs && unheard_ms > kUnheardMs;
}

// Waits for the transaction that the leader before is in, for it has the row; a frozen leader's was ended with its connection.
void Leadership::begin_term() {
  const int64_t timeline = table_.timeline();
  const TermRow before = table_.lock_row();
  Leader next = self_;
  next.term = std::max(before.term, (timeline - 1) * kTermsOfTimeline) + 1;
  new_timeline_ = before.term > 0 && before.timeline != timeline;
  table_.write_row(next, new_timeline_ ? before.timeline : timeline);
  timeline_ = timeline;
  self_ = std::move(next);
}

}  // namespace holdfast::rendezvous
