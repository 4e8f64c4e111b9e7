// A job that serves, on the train thread: its texts are written by threads of the replica, from when it is prepared until the
// job is given up, whatever the generations. A generation says who counts as a member, and nothing else.
#include <spdlog/spdlog.h>

#include <utility>

#include "rendezvous/client/service_store.h"
#include "worker/peer_server/peer_server.h"
#include "worker/process/job_runner.h"

namespace holdfast::worker {
namespace {

constexpr std::chrono::milliseconds kLook{10};

}  // namespace

DataPlaces JobRunner::places() {
  return {.data_root = options_.data_root,
          .data_sets = &data_sets_,
          .stop = interrupt_.flag(),
          .open_store = [this](const std::string& store, const std::string& job, const std::atomic<bool>* stop) {
            return open_store(store, job, storage::MissingFolder::kFail, stop);
          }};
}

Input JobRunner::prepare_replica(const StartPrepare& task) {
  const LinkOptions& link = link_.options();
  const rendezvous::WorkerIdentity identity{link.worker, link.incarnation};
  auto replica =
      Replica::prepare({.link = link_,
                        .job = task.job,
                        .spec = task.spec,
                        .make_ops = options_.make_ops,
                        .memory = options_.memory,
                        .places = places(),
                        .objects = rendezvous::open_service_store(link.server, task.job, link.token, {.identity = identity}),
                        .host = host_of(transport_.address()),
                        .ports = options_.ports},
                       *interrupt_.flag());
  if (interrupt_.raised()) return PrepareEnded{PrepareEnded::How::kInterrupted, interrupt_.reason(), {}, 0};
  if (!replica) {
    spdlog::error("job {} is refused: {}", task.job, replica.error());
    return PrepareEnded{PrepareEnded::How::kRefused, replica.error(), {}, 0};
  }
  replica_ = *std::move(replica);
  spdlog::info("prepared for job {}: serves {}", task.job, task.spec.init_from);
  return PrepareEnded{PrepareEnded::How::kPrepared, {}, replica_->digest(), 0};
}

Input JobRunner::serve(const rendezvous::Directive& join) {
  spdlog::info("serves in generation {} of job {} with {} replicas", join.generation, join.job, join.members.size());
  on_input_(Joined{-1});
  while (!requests_.yield && !interrupt_.wait_for(kLook)) {
  }
  return RunEnded{-1, requests_.yield ? "" : interrupt_.reason()};
}

}  // namespace holdfast::worker
