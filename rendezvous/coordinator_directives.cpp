// What each worker is told now, and of whom that may have changed.
//
// Directives are derived, never stored; their tags are kept until the worker is touched, so that a heartbeat's answer costs
// nothing. Whatever changes what directive_of() looks at has to touch the worker: what is the job's own, apply() sees to.
#include "rendezvous/coordinator.h"

namespace holdfast::rendezvous {

void Coordinator::touch(const std::string& id) {
  touched_.insert(id);
  unsettled_ = true;
  if (const auto found = workers_.find(id); found != workers_.end()) found->second.tag.clear();
}

const std::string& Coordinator::tag_of(Worker& worker) {
  if (worker.tag.empty()) worker.tag = directive_of(worker.registration.name).tag();
  return worker.tag;
}

std::optional<Directive> Coordinator::news_for(const std::string& id, const std::string& have) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return std::nullopt;
  Worker& worker = found->second;
  if (worker.life != Worker::Life::kAlive || !worker.spoke || tag_of(worker) == have) return std::nullopt;
  return directive_of(id);
}

Directive Coordinator::directive_of(const std::string& id) {
  ++work_.directives;
  const Worker& worker = workers_.at(id);
  if (const Job* job = find_job(worker.job)) return directive_for(job->membership, id);
  Directive directive;
  if (worker.leaving()) {
    directive.kind = DirectiveKind::kExit;
    directive.reason = worker.draining ? "drained" : "its request to end is granted";
  }
  return directive;
}

}  // namespace holdfast::rendezvous
