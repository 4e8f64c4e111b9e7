#include "rendezvous/api/parts.h"

#include <utility>

namespace holdfast::rendezvous {
namespace {

constexpr size_t kCommandsMax = 10000;

}  // namespace

Parts::Parts(const ServiceOptions& options, const Clock& clock, JobStore& store, std::function<std::string()> new_secret)
    : state(store, clock, std::move(new_secret), options.times),
      commands(std::make_shared<CommandQueue>(kCommandsMax)),
      turn{state, clock, replies, commands},
      followers(turn),
      tokens(turn, followers, options.admin_token, options.worker_token),
      access(tokens.book(), clock, options.requests_per_s),
      probes(options.service_id),
      prometheus(turn, followers, options.data_dir, options.http_counts),
      jobs(turn),
      plans(turn),
      lists(turn, followers),
      workers(turn, options.service_id),
      profiles(turn),
      submissions(turn, options.data_dir, options.checkpoint_roots),
      objects(turn, options.data_dir, options.object_threads),
      webhook_sender(turn, store.load_webhooks()),
      webhooks(turn, webhook_sender.book()) {}

Parts::~Parts() {
  commands->close();  // others may keep the queue beyond the service's life
}

void Parts::close() {
  commands->close();
  workers.close();
  followers.close();
  webhook_sender.cancel();  // the next life sends the deliveries that were not taken
}

void Parts::finish() {
  profiles.finish();
  submissions.finish();
  objects.finish();
}

}  // namespace holdfast::rendezvous
