// The train thread: prepares a job, takes part in generations, releases the job. One task at a time, as the lifecycle says.
//
// Promises: each task ends with exactly one input for the lifecycle. `interrupt` ends it soon, whatever it waits for, except
// for a file that is being checked or a checkpoint that is being written.
// Thread: its own; start and interrupt calls come from any thread, one at a time (the lifecycle's lock).
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "worker/checkpoints/checkpointing.h"
#include "worker/link/interrupt.h"
#include "worker/link/outbox.h"
#include "worker/link/progress_reporter.h"
#include "worker/process/lifecycle.h"
#include "worker/profile/profiler.h"
#include "worker/replica/replica.h"
#include "worker/session/session.h"
#include "worker/state/source.h"
#include "worker/step/train_loop.h"
#include "worker/tensorboard/event_writer.h"
#include "worker/transport/transport.h"

namespace holdfast::worker {

struct RunnerOptions {
  std::string data_root;
  std::vector<std::string> checkpoint_roots;
  kernels::OpsFactory make_ops;
  MemoryLimit memory = {};
  // NCCL_TIMEOUT: used where the job's spec leaves the collective timeout at its default.
  std::optional<std::chrono::milliseconds> collective_timeout;
  std::string tensorboard_dir;  // "": none
  bool shared_memory = true;    // with other workers of this machine
  PortRange ports = {};         // where other workers reach what this one gives them
};

// The worker's connections; they outlive the runner.
struct RunnerConnections {
  ServiceLink& link;
  Outbox& outbox;
  Transport& transport;
  DataSetOpener& data_sets;
};

class JobRunner {
 public:
  using OnInput = std::function<void(const Input&)>;

  // `on_input` is called from the train thread.
  JobRunner(RunnerOptions options, const RunnerConnections& connections, OnInput on_input);
  ~JobRunner();  // interrupts and waits

  void start(const StartPrepare& task);
  void start(const StartRun& task);
  void start(const StartRelease& task);
  void ask(const AskYield& request);
  void ask(const RecordProfile& request) { profiler_.want(request.order); }
  void interrupt(const std::string& reason) { interrupt_.raise(reason); }

 private:
  void begin(std::function<Input()> task);
  void work();

  Input prepare(const StartPrepare& task);
  Input run(const rendezvous::Directive& join);
  Input release();
  // Of a job that serves (serving_job.cpp).
  Input prepare_replica(const StartPrepare& task);
  Input serve(const rendezvous::Directive& join);
  DataPlaces places();

  storage::Result<std::unique_ptr<storage::ObjectStore>> open_store(const std::string& store, const std::string& job,
                                                                    storage::MissingFolder missing,
                                                                    const std::atomic<bool>* stop,
                                                                    const std::string& copy = "") const;
  std::shared_ptr<Copier> make_copier(const StartPrepare& task) const;
  RunStop take_part(const rendezvous::Directive& join);
  RunResult<std::unique_ptr<Communicator>> form_ring(const rendezvous::Directive& join);
  RunResult<void> share_memory(const rendezvous::Directive& join, Communicator& ring);
  void tell_of_devices(const std::string& job, const std::string& library, const std::string& why_not);  // any thread
  RunResult<void> agree(const rendezvous::Directive& join, Communicator& ring);
  void report_stop(const rendezvous::Directive& join, const RunStop& stop);
  std::vector<int> gone_members(const rendezvous::Directive& join) const;
  void report_fault(const rendezvous::Directive& join, const RunStop& stop);
  void send_profile(RecordedProfile recorded);
  void drop_session();

  RunnerOptions options_;
  ServiceLink& link_;
  Outbox& outbox_;
  Transport& transport_;
  DataSetOpener& data_sets_;
  OnInput on_input_;
  StoreOpener open_store_;  // for reading
  ProgressReporter reporter_;
  Profiler profiler_;
  std::string job_;                           // of the run under way
  std::unique_ptr<TensorBoard> tensorboard_;  // where it is asked for
  RunRequests requests_;
  Interrupt interrupt_;
  std::unique_ptr<Replica> replica_;  // of a job that serves: then there is no session
  std::unique_ptr<Session> session_;
  std::vector<std::shared_ptr<Copier>> copiers_;  // of this job, and of jobs before it that are not all copied yet
  std::unique_ptr<Checkpointing> checkpoints_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<Input()> task_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace holdfast::worker
