// Rifts between members that both live and do not reach each other: which ones are known, and how sure they are.
//
// Pure. Private to the membership.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/membership/state.h"

namespace holdfast::rendezvous {

struct Turn;

RiftKey rift_key(const std::string& a, const std::string& b);
bool concerns(const RiftKey& key, const std::string& worker);
// Whether the member takes part in the job, in the same life.
bool is_same_life(const JobMembership& job, const Member& member);
bool is_between_living(const JobMembership& job, const Rift& rift);
// Whether somebody may have to wait for the rift. A rift whose pause is over is on trial, and not sure.
bool is_sure(const Rift& rift, Millis now);

// Before a generation forms: a failure that was reported of the last ring counts where both neighbours have answered since.
void count_rifts(Turn& turn);
// The neighbours of the current generation have made a step together.
void forget_bridged_rifts(JobMembership& job);
// A neighbour in a ring of `members` reports that it does not reach another, though that one may live.
void on_unreached(JobMembership& job, const std::vector<Member>& members, const FaultReport& report);

}  // namespace holdfast::rendezvous
