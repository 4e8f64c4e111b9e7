#include "rendezvous/coordinator/worker_lives.h"

#include <fmt/format.h>

namespace holdfast::rendezvous {

Refusal stale_life(const std::string& worker, const std::string& incarnation, const std::string& code) {
  const char* why = code == "superseded" ? "another process registered under this name"
                                         : "the service took it for lost and went on without it";
  return {Refusal::Kind::kStale, code, fmt::format("incarnation {} of {} is over: {}", incarnation, worker, why)};
}

void WorkerLives::forbid(const std::string& worker, const std::string& incarnation, const std::string& code) {
  ended_[incarnation] = code;
  registry_.touch(worker);
  journal_.write().end_incarnation(worker, incarnation, code);
}

std::optional<Refusal> WorkerLives::refusal_if_ended(const std::string& worker, const std::string& incarnation) const {
  const auto found = ended_.find(incarnation);
  if (found == ended_.end()) return std::nullopt;
  return stale_life(worker, incarnation, found->second);
}

OrRefusal<Worker*> WorkerLives::need(const std::string& name, const std::string& incarnation) {
  if (auto over = refusal_if_ended(name, incarnation)) return tl::unexpected(*std::move(over));
  Worker* worker = registry_.find_worker(name);
  if (worker == nullptr)
    return refuse(Refusal::Kind::kNotKnown, "not_found", fmt::format("there is no worker {}: register it first", name));
  if (worker->registration.incarnation != incarnation) {
    return refuse(Refusal::Kind::kNotKnown, "not_found",
                  fmt::format("incarnation {} of {} is not known: register it first", incarnation, name));
  }
  return worker;
}

void WorkerLives::write_off(Worker& worker, Worker::Life life, const std::string& reason, int64_t generation) {
  const std::string name = worker.registration.name, job = worker.job;
  worker.life = life;
  worker.lost_generation = generation;
  worker.lost_job = job;
  if (!job.empty()) worker.last_job = job;
  worker.job.clear();
  const std::string& node = worker.registration.node;
  if (life == Worker::Life::kLeft) {
    journal_.record({"worker_left", fmt::format("{} (node {}) left: {}", name, node, reason), job, name, generation});
  } else {
    const std::string where = job.empty()      ? "idle"
                              : generation > 0 ? fmt::format("in generation {} of {}", generation, job)
                                               : "in " + job;
    journal_.record(
        {"worker_lost", fmt::format("{} (node {}, {}) was lost: {}", name, node, where, reason), job, name, generation});
  }
  if (life == Worker::Life::kLost && note_loss(worker.losses, registry_.wall_ms()))
    journal_.record({"worker_held_back", held_back_in_words(name, worker.losses, registry_.wall_ms()), job, name});
  registry_.save(worker);
  registry_.touch(name);
}

}  // namespace holdfast::rendezvous
