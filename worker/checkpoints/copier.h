// Copies a job's checkpoints to their second place, beside training and after the job has ended here.
//
// Promises: training waits for nothing of it. The newest checkpoint is copied first, at the job's rate on average; where all
// are kept (keep_last 0), the others follow. A copy that is broken off goes on where it stopped, here or at another rank. Older
// copies are removed as in the first place: below a newest one that was read back there and verified. The service is told of
// each copy; a copy that fails, or falls two checkpoints behind, is an event. Thread: one of its own; any may call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "storage/checkpoint.h"
#include "worker/link/interrupt.h"
#include "worker/link/outbox.h"
#include "worker/link/service_link.h"

namespace holdfast::worker {

struct CopySetup {
  // `stop`: ends what is read of the store.
  using Open = std::function<storage::Result<std::unique_ptr<storage::ObjectStore>>(const std::atomic<bool>* stop)>;
  ServiceLink& link;  // this and the next outlive the copier
  Outbox& outbox;
  std::string job, place;  // the second place, as the job's spec names it
  Open open_first, open_second;
  int64_t keep_last = 0;
  double bytes_per_s = 0;  // 0: as fast as it goes
  int threads = 1;
  std::chrono::milliseconds first_pause{5000};  // after a copy that failed; longer after each further one
};

class Copier {
 public:
  explicit Copier(CopySetup setup);
  ~Copier();  // breaks off the copy under way
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // There may be a checkpoint to copy: this rank has written one (`is_new`), or writes them from now on.
  void look(bool is_new);
  // No more will come: the copier is done once it has copied what is there, or cannot.
  void finish();
  bool is_done() const;
  // Whether the second place has the checkpoint, as far as is known.
  bool has(int64_t step) const;

 private:
  void work();
  // The step that is to be copied next; nullopt: none.
  storage::Result<std::optional<int64_t>> next_step();
  storage::Result<void> open_stores();
  storage::Result<void> copy_next();  // clears wanted_ when nothing is left
  void tell_service(const storage::Manifest& manifest, std::vector<int64_t> removed);
  std::vector<int64_t> remove_older(int64_t newest);
  void note_failure(const storage::Error& error, bool is_last);
  void event(const std::string& kind, const std::string& text);

  const CopySetup setup_;
  const std::unique_ptr<rendezvous::HttpClient> client_;
  std::unique_ptr<storage::ObjectStore> first_, second_;
  Interrupt stop_;
  std::string last_problem_;  // that was told
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false, finishing_ = false, done_ = false, is_behind_ = false;
  int64_t came_meanwhile_ = 0;  // checkpoints, since the copy under way began
  std::set<int64_t> there_;     // steps in the second place
  std::thread thread_;
};

}  // namespace holdfast::worker
