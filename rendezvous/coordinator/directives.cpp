#include "rendezvous/coordinator/directives.h"

namespace holdfast::rendezvous {

const std::string& Directives::tag_of(Worker& worker) {
  if (worker.tag.empty()) worker.tag = make(worker.registration.name).tag();
  return worker.tag;
}

std::optional<Directive> Directives::news_for(const std::string& name, const std::string& have) {
  Worker* worker = registry_.find_worker(name);
  if (worker == nullptr || worker->life != Worker::Life::kAlive || !worker->spoke || tag_of(*worker) == have)
    return std::nullopt;
  Directive news = make(name);
  // A worker of a release that knows neither field makes its tag without them: it would be told again at once, and again.
  Directive as_read_before = news;
  as_read_before.began.clear();
  as_read_before.profile.reset();
  if (as_read_before.tag() == have) return std::nullopt;
  worker->idle_told |= news.kind == DirectiveKind::kIdle;
  return news;
}

Directive Directives::make(const std::string& name) {
  ++made_;
  const Worker& worker = *registry_.find_worker(name);
  Directive directive;
  if (const Job* job = registry_.find_job(worker.job)) {
    directive = directive_for(job->membership, name);
    if (directive.kind == DirectiveKind::kJoin) directive.profile = profiles_.order_for(job->id, directive.generation);
    return directive;
  }
  if (worker.leaving()) {
    directive.kind = DirectiveKind::kExit;
    directive.reason = worker.draining ? "drained" : "its request to end is granted";
  }
  return directive;
}

}  // namespace holdfast::rendezvous
