// Workers that are lost again and again soon after they came: how long each is held back.
//
// Rule: a life that lasts a minute forgives all before it. The fourth loss in a row within a minute of a life's beginning
// holds the worker back for 5 s, each further one for twice as long, up to 5 minutes. A worker that is held back is offered to
// no job that could do without it; one that lacks workers for its minimum gets it at once, so that no job waits for a pause.
// Pure; wall time, because it is kept over restarts of the service. A clock that was set back holds nobody for longer.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::rendezvous {

struct LossRecord {
  int64_t began_ms = 0;       // the life under way
  int64_t short_lives = 0;    // in a row
  int64_t held_until_ms = 0;  // 0: never was
  bool operator==(const LossRecord&) const = default;
};

// A life begins; those before are remembered.
void note_life(LossRecord& record, int64_t now_ms);
// It ended unasked. True: the worker is held back from now on.
bool note_loss(LossRecord& record, int64_t now_ms);
int64_t held_back_ms(const LossRecord& record, int64_t now_ms);  // how much longer; 0: not held back
std::string held_back_in_words(const std::string& worker, const LossRecord& record, int64_t now_ms);

}  // namespace holdfast::rendezvous
