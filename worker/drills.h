// Faults that a worker brings upon itself because it consented to drills: `holdfast-worker --drills DIR` (or
// HOLDFAST_DRILLS). Whoever may write to that folder, `holdfast chaos` for one, may do these:
//
//   DIR/<worker>.slow      each step takes 100 ms longer while the file is there
//   DIR/<worker>.cut       the worker's network is silent both ways while the file is there: nothing it sends on the ring or
//                          to the service arrives, nothing is received, and no connection is seen to end
//   DIR/<worker>.corrupt   one byte of the data that it sends on the ring is altered, once; then the worker removes the file
//   DIR/<worker>.consents  is made by the worker at its start, and says that it obeys the others
//
// Workers of one node are all started with it, or none: a ring checks what it sends between nodes only (it costs a fifth of
// the rate), and during drills within a node, too; neighbours who do not agree on that end their ring at once.
// Promises: without --drills none of this is built, and no file is looked for.
// Not silent in a cut: the objects of a checkpoint that is being put into the service's own store, and the supervisor.
// Thread: any.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "worker/fault_points.h"
#include "worker/transport.h"

namespace holdfast::worker {

class Drills {
 public:
  Drills(std::string folder, const std::string& worker);

  // Makes the file that says so; the error names it.
  tl::expected<void, std::string> consent() const;
  FaultRule slow_rule() const;
  bool is_cut() const;
  bool is_to_corrupt() const;
  void note_corrupted() const;

 private:
  std::string of_worker(const char* fault) const { return prefix_ + fault; }
  std::string prefix_;
};

// `inner` as it is during drills. `drills` outlives it.
std::unique_ptr<Transport> make_drill_transport(std::unique_ptr<Transport> inner, const Drills& drills);

}  // namespace holdfast::worker
