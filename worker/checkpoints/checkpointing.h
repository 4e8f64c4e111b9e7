// Checkpoints of a job from a rank that writes them: write, register with the service, keep the newest few. Of a divided state
// every rank writes its part, and rank 0 puts the manifest when all parts are there, registers and keeps.
//
// Promises: training waits only while the state is copied, and on the host for no more of that than is left when a step is
// about to change it. A checkpoint is registered after it is durable and the service knows the steps before it. Older
// checkpoints are removed after that, and only below one that was read back and verified. A failed write is an event and is
// tried again with growing pauses until a newer checkpoint takes its place. A failed removal is an event and is tried again
// after the next checkpoint. A registration is tried again, too: through a restart of the service, and through changes of
// generation (it is registered under the generation of the day). The last checkpoint of a job is registered again when the
// service has lost it with its database. Refuses: to write two checkpoints at once: the second is left out, and an event says
// so. A divided state's checkpoint that lacks a part some seconds after a rank is gone, or for minutes, is given up: an event,
// too. Thread: one for the caller; the writer's; and one of its own that registers and removes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "storage/checkpoint_writer.h"
#include "worker/checkpoints/copier.h"
#include "worker/checkpoints/last_wait.h"
#include "worker/checkpoints/state_to_write.h"
#include "worker/checkpoints/store_probe.h"
#include "worker/link/outbox.h"
#include "worker/link/progress_reporter.h"
#include "worker/session/run_stop.h"
#include "worker/session/session.h"

namespace holdfast::worker {

// The references outlive the object that is made from it; the session is read only while it is made.
struct CheckpointSetup {
  ServiceLink& link;
  Outbox& outbox;
  ProgressReporter& reporter;
  const Session& session;
  std::unique_ptr<storage::ObjectStore> store;
  std::string store_name;  // for the catalogue: "" for the service's own store, else the folder
  std::chrono::milliseconds probe_patience = StoreProbe::kPatience;
  std::shared_ptr<Copier> copier = nullptr;  // where the job's checkpoints have a second place; outlives this, to finish
};

// Whether a rank can write its part of a checkpoint now.
enum class Readiness : uint8_t {
  kBusy,  // an older one is still being written
  kReady,
  kElsewhere,  // its store is not that of rank 0
  kLooking,    // it does not know yet whether its store is that of rank 0
};
// Which checkpoint is asked for: the job waits for its last one, and nobody asks for it again.
enum class AskedFor : uint8_t { kOneOfMany, kLast };

class Checkpointing {
 public:
  explicit Checkpointing(CheckpointSetup setup);
  ~Checkpointing();  // waits for the write under way; registrations that are still open are dropped

  // A generation of this worker begins, and goes on from the state of `step`: checkpoints of later states that were written
  // before belong to a voided history, and are not registered any more. `members`: their incarnations, by rank.
  void enter_generation(int64_t generation, int rank, int64_t step, std::vector<std::string> members = {});

  // Of a divided state: looks from now on, beside training, whether this rank's store is that of rank 0, `first`. `node`: this
  // rank's machine. Not where the service keeps the checkpoints.
  void look_at_store(const std::string& first, const std::string& node);

  // Copies the state and writes it in the background.
  void start(const StateToWrite& state);
  // For parts, which make a checkpoint only together: whether one of `step` can begin now. If it is ready, no other begins, and
  // files of that step are left alone, until it does or the reservation is forgotten.
  Readiness reserve(int64_t step, AskedFor asked_for);
  // This rank has heard the others' answers to that, so that they may have heard its own: when it hears their next ones they
  // have.
  void have_answered(Readiness mine);
  void forget_reservation();
  // `who`: the ranks that write to another store, in words, by what all have told each other last; "": none. A checkpoint that
  // was under way by then and lacks parts is given up, unless the job waits for it, and may be written anew.
  void others_are_elsewhere(std::string who);
  // The part that an older checkpoint lacks still, where this rank waits for it: "that of step 20 lacks the part of rank 2".
  std::string missing_part() const;
  // Likewise, when a part cannot begin: `why` is for people.
  void skip(int64_t step, const std::string& why);
  // As `start`, once the writer has no other to write.
  RunResult<void> hand_in(const StateToWrite& state, Interrupt& interrupt);
  // Returns the state's hash when the state is durable and registered; of a part that is not rank 0's, when it is durable. From
  // when `patience` says how long, it gives up on the registration so long after the checkpoint was durable (it is there then,
  // under a path from which a job can be resumed), and on the write so long after it failed first, or after other ranks' parts
  // were waited for for minutes; an event says so.
  using PatienceNow = std::function<std::optional<std::chrono::milliseconds>()>;
  RunResult<std::string> write_now(
      const StateToWrite& state, Interrupt& interrupt, const PatienceNow& patience = [] { return std::nullopt; });

 private:
  void make_probe(std::chrono::milliseconds patience);
  bool was_elsewhere();  // this rank, and the others do not know it yet
  bool submit(const StateToWrite& state);
  bool give_to_writer(const StateToWrite& state, storage::Manifest manifest);
  void retry();
  bool is_void(const storage::Manifest& manifest) const;  // with the lock held
  void finish_writes();                                   // the thread: takes outcomes, retries
  void finish_write(storage::WriteOutcome outcome);
  // Of a part: the whole checkpoint's outcome; nullopt: it has none here.
  std::optional<storage::WriteOutcome> complete(storage::WriteOutcome part);
  void remember(const storage::Manifest& manifest, bool is_part = false);  // in registered_
  std::optional<std::string> reason_to_give_up(const storage::Manifest& manifest, std::chrono::steady_clock::time_point begun);
  bool lacks_writers_of(int64_t generation) const;  // with the lock held
  void register_again();                            // the newest that was registered
  std::string checkpoints_path() const { return "/v1/jobs/" + job_ + "/checkpoints"; }
  // The service's answer; nullopt: it is not registered, and will not be. Signs the record: which worker, of which generation.
  std::optional<rendezvous::CheckpointReply> register_checkpoint(rendezvous::CheckpointRecord& record,
                                                                 const storage::Manifest& manifest);
  // Removes older checkpoints, but those of the steps `needed`; the steps that are gone.
  std::vector<int64_t> apply_retention(int64_t newest, std::span<const int64_t> needed);
  void report_removed(rendezvous::CheckpointRecord& record, const storage::Manifest& manifest);
  void tidy_up(const storage::Manifest& manifest);
  void note_failure(const storage::WriteOutcome& outcome);  // the writer's thread
  void retry_if_due();                                      // the tender, and the train thread while it waits for a checkpoint
  void remove_older(rendezvous::CheckpointRecord& record, const storage::Manifest& manifest, std::span<const int64_t> needed);
  double take_compared_s(int64_t step);
  void tell_of_last(int64_t step) const;
  RunStop not_in_time(int64_t step) const;
  RunStop stop_of(const storage::WriteOutcome& refused);

  ServiceLink& link_;
  Outbox& outbox_;
  ProgressReporter& reporter_;
  std::string job_, store_name_, copy_name_;
  nlohmann::json spec_, data_;
  int64_t keep_last_;
  int threads_;
  const size_t copied_bytes_;
  const bool keeps_room_;  // also in a generation in which another rank writes, or before a state is read or handed over
  std::unique_ptr<storage::ObjectStore> store_;
  const std::shared_ptr<Copier> copier_;
  std::unique_ptr<StoreProbe> probe_;
  std::unique_ptr<rendezvous::HttpClient> client_;
  Interrupt stop_;

  std::mutex begin_mutex_;  // held while a write begins, and while leftovers of others are removed; taken before mutex_.
                            // The train thread only tries to take it.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t generation_ = 0, written_in_generation_ = 0;
  std::chrono::steady_clock::time_point generation_began_;
  std::map<int64_t, int64_t> starts_;                    // generation -> the step it went on from, the latest few
  std::map<int64_t, std::vector<std::string>> members_;  // likewise
  int rank_ = 0;
  std::string elsewhere_;                            // others_are_elsewhere
  std::pair<int64_t, std::string> strayed_{-1, ""};  // the step under way when ranks were elsewhere last, and that in words
  bool part_begun_ = false;                          // since the others know that this rank was elsewhere last
  bool untold_elsewhere_ = false;                    // it was, after it began a part, and they may not know
  bool answered_elsewhere_ = false;                  // in this generation, last
  std::string missing_part_;                         // missing_part()
  std::atomic<int64_t> awaited_ = -1;                // the step whose checkpoint the train thread waited for last
  int64_t submitted_ = -1;                           // the newest step that the writer was given in this generation
  int64_t tried_ = -1;                               // likewise, also where it is to be given that step again
  std::map<int64_t, double> compared_s_;             // StateToWrite's, by step
  std::atomic<bool> is_last_ = false;                // the train thread waits for it with patience
  LastWait last_wait_;
  int64_t reserved_ = -1;                          // the step that other ranks may write already, and this one is about to
  bool tidied_ = false;                            // in this generation, and no checkpoint was given up or failed since
  std::chrono::steady_clock::time_point stopped_;  // when the job was released
  std::deque<storage::WriteOutcome> outcomes_;
  std::optional<storage::WriteOutcome> newest_registered_;
  std::optional<std::chrono::steady_clock::time_point> retry_at_;
  std::chrono::milliseconds retry_delay_{0};
  std::pair<int64_t, std::string> failed_{-1, ""};  // the step of the last write, where it has failed, and why
  std::map<int64_t, std::string> registered_;       // step -> hash, the newest few of this generation; durable parts, too
  std::map<int64_t, RunStop> refused_;              // step -> why this generation can never write it
  std::thread finisher_;
  std::unique_ptr<storage::CheckpointWriter> writer_;  // last: its callback uses the rest
};

}  // namespace holdfast::worker
