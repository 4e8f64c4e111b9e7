// Which incarnations of workers are over, and the end of a life.
//
// Promises: an incarnation that is over is over for good, after a restart of the service too.
// Thread: the owner.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/coordinator/journal.h"
#include "rendezvous/coordinator/refusal.h"
#include "rendezvous/coordinator/registry.h"

namespace holdfast::rendezvous {

class WorkerLives {
 public:
  // Both outlive it.
  WorkerLives(Registry& registry, Journal& journal) : registry_(registry), journal_(journal) {}

  // From the database: by incarnation, the code of its refusal.
  void restore(std::map<std::string, std::string> ended) { ended_ = std::move(ended); }
  // The refusal for an incarnation that is over; nothing for one that lives or is not known.
  std::optional<Refusal> refusal_if_ended(const std::string& worker, const std::string& incarnation) const;
  // The worker, if this incarnation of it is the present one.
  OrRefusal<Worker*> need(const std::string& worker, const std::string& incarnation);
  // Ends an incarnation: whatever it says from now on is refused with this code.
  void forbid(const std::string& worker, const std::string& incarnation, const std::string& code);
  // Ends the worker's life in its own row; the caller tells its job. `generation` is the job's at that time, 0: none.
  void write_off(Worker& worker, Worker::Life life, const std::string& reason, int64_t generation);

 private:
  Registry& registry_;
  Journal& journal_;
  std::map<std::string, std::string> ended_;  // incarnation -> code
};

// The refusal for an incarnation that is over for the reason that `code` names.
Refusal stale_life(const std::string& worker, const std::string& incarnation, const std::string& code);

}  // namespace holdfast::rendezvous
