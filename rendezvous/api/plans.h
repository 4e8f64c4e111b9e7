// POST /v1/plan: what a job would spend on the network, before it is submitted (rendezvous/plan).
//
// Promises: nothing is changed. Numbers that the request leaves out are those that the service knows (queries/known_speed.h),
// and the answer says where each number is from.
// Refuses, with 422, to plan where neither the request nor a job says how fast a device is.
// Thread: the owner's.
#pragma once

#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"

namespace holdfast::rendezvous {

class PlansApi {
 public:
  explicit PlansApi(Turn& turn) : state_(turn.state) {}

  void post_plan(Call& call);

 private:
  Coordinator& state_;
};

}  // namespace holdfast::rendezvous
