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
      probes({options.service_id, options.address, options.term, options.database_seen}),
      scaler(turn, options.scale_hook),
      serving(turn, options.data_dir, options.texts),
      prometheus(turn, followers, scaler, serving, options.data_dir, options.http_counts,
                 {options.term, options.database_seen}),
      jobs(turn),
      plans(turn),
      lists(turn, followers),
      workers(turn, options.service_id),
      profiles(turn),
      data_keeper(turn, options.data_dir, options.data_limit_bytes, options.object_threads),
      data_chunks(data_keeper),
      data_sets(data_keeper),
      data_holders(data_keeper),
      submissions(turn, options.data_dir, options.checkpoint_roots, data_keeper.catalogue(), options.in_plain),
      objects(turn, options.data_dir, options.object_threads),
      exports(turn, {options.data_dir, options.checkpoint_roots}),
      webhook_sender(turn, store.load_webhooks()),
      webhooks(turn, webhook_sender.book()) {}

Parts::~Parts() {
  commands->close();  // others may keep the queue beyond the service's life
}

void Parts::close() {
  commands->close();
  workers.close();
  serving.close();
  followers.close();
  exports.cancel();
  scaler.cancel();
  webhook_sender.cancel();  // the next life sends the deliveries that were not taken
}

void Parts::finish() {
  profiles.finish();
  data_keeper.finish();
  submissions.finish();
  objects.finish();
  exports.finish();
  serving.finish();
}

}  // namespace holdfast::rendezvous
