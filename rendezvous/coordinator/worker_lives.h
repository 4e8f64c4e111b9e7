// The ended incarnations of workers, and the end of a worker's life.
//
// Promises: an incarnation that has ended never becomes valid again, also after a restart of the service.
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
  // Both arguments outlive this object.
  WorkerLives(Registry& registry, Journal& journal) : registry_(registry), journal_(journal) {}

  // Sets the ended incarnations from the database: by incarnation, the code of its refusal.
  void restore(std::map<std::string, std::string> ended) { ended_ = std::move(ended); }
  // The refusal for an incarnation that has ended; nothing for one that is alive or unknown.
  std::optional<Refusal> refusal_if_ended(const std::string& worker, const std::string& incarnation) const;
  // The worker, if this incarnation of it is the present one.
  OrRefusal<Worker*> need(const std::string& worker, const std::string& incarnation);
  // Ends an incarnation: its messages are refused with this code from now on.
  void forbid(const std::string& worker, const std::string& incarnation, const std::string& code);
  // Ends the worker's life in its own row; the caller tells its job. `generation`: the job's generation then; 0: none.
  void write_off(Worker& worker, Worker::Life life, const std::string& reason, int64_t generation);

 private:
  Registry& registry_;
  Journal& journal_;
  std::map<std::string, std::string> ended_;  // incarnation -> code
};

// The refusal for an incarnation that has ended for the reason that `code` names.
Refusal stale_life(const std::string& worker, const std::string& incarnation, const std::string& code);

}  // namespace holdfast::rendezvous
