// Faults that a worker causes itself because it consented to drills: `holdfast-worker --drills DIR` (or HOLDFAST_DRILLS). A
// program that may write to that folder, such as `holdfast chaos`, makes these files:
//
//   DIR/<worker>.slow      each step takes 100 ms longer while the file is there
//   DIR/<worker>.cut       the worker's network is silent both ways while the file is there: nothing it sends on the ring or
//                          to the service arrives, nothing is received, and no connection is seen to end
//   DIR/<worker>.corrupt   one byte of the data that it sends on the ring is altered, once; then the worker removes the file
//   DIR/<worker>.consents  is made by the worker at its start, and says that it obeys the others
//
// Start all workers of one node with it, or none. A ring checks only bytes that go between nodes (it costs a fifth of the
// rate), and during drills those within a node, too; neighbours that do not agree on that end their ring at once.
// Promises: without --drills none of this is built, and no file is looked for.
// A cut does not silence the objects of a checkpoint that is being put into the service's own store, and the supervisor.
// Thread: any.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "worker/drills/fault_points.h"
#include "worker/transport/transport.h"

namespace holdfast::worker {

class Drills {
 public:
  Drills(std::string folder, const std::string& worker);

  // Makes the file that says that this worker consents; the error names it.
  tl::expected<void, std::string> consent() const;
  FaultRule slow_rule() const;
  bool is_cut() const;
  bool is_to_corrupt() const;
  void note_corrupted() const;

 private:
  std::string of_worker(const char* fault) const { return prefix_ + fault; }
  std::string prefix_;
};

// Wraps `inner` for drills. `drills` outlives it.
std::unique_ptr<Transport> make_drill_transport(std::unique_ptr<Transport> inner, const Drills& drills);

}  // namespace holdfast::worker
