// The word of each rank of a new generation on its state, before they come to one: its step, and steps that are not confirmed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/protocol/messages.h"
#include "worker/link/step_history.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"

namespace holdfast::worker {

struct Offer {
  int64_t step = -1;  // -1: no state
  std::string hash;   // "" where the state is divided: no rank has all of it
  int64_t applied_step = -1, refused_in_row = 0;
  int64_t summed_step = -1;  // as Session::summed
  double norm = 0;
  bool refused_last = false;
  std::vector<rendezvous::StepPoint> unconfirmed;
};

// Without a hash.
Offer offer_of(const Session& session, const StepHistory& history);
// Every rank's, by rank.
RunResult<std::vector<Offer>> gather_offers(Communicator& ring, const Offer& mine);
// "12, 12, none": the steps, by rank.
std::string steps_held(const std::vector<Offer>& offers);
// Collects every step at or below the donor's that any rank has not seen confirmed, each once: points of a step are the same
// on all ranks. A step that one rank has not seen confirmed counts as unconfirmed for all: another rank may have had the
// confirmation of a step that was voided since.
void merge_history(const std::vector<Offer>& offers, int64_t step, StepHistory& history);

}  // namespace holdfast::worker
