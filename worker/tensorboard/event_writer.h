// A job's training curves for TensorBoard: event files in ROOT/JOB, written by rank 0.
//
// Each generation in which this worker is rank 0 has a file of its own. The time in its name is later than in those of the
// files that were there, because TensorBoard reads them in that order. The file begins with the step from which the
// generation goes on: TensorBoard then drops its points of later steps, which were voided.
// Promises: training never waits for the disk; a job's name cannot lead out of ROOT. If a file cannot be written, that is
// told once in each generation, and training goes on without it.
// Thread: the train thread calls; its own writes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "rendezvous/protocol/messages.h"

namespace holdfast::worker {

class TensorBoard {
 public:
  using OnFailure = std::function<void(const std::string& job, const std::string& what)>;

  // `on_failure` is called from the thread that writes.
  TensorBoard(std::string root, OnFailure on_failure);
  ~TensorBoard();  // writes the queued entries
  TensorBoard(const TensorBoard&) = delete;
  TensorBoard& operator=(const TensorBoard&) = delete;

  // This worker is rank 0 from now on, in a generation that goes on from the state after `step`. `unconfirmed` are earlier
  // steps that the previous rank 0 may not have written before it ended.
  void begin(const std::string& job, int64_t step, int64_t world_size,
             const std::deque<rendezvous::StepPoint>& unconfirmed = {});
  void add(const rendezvous::StepPoint& point);

 private:
  struct Entry {
    double wall_s = 0;
    int64_t step = 0, world_size = 0;  // 0: not known
    std::string job = {};              // not empty: a generation begins
    rendezvous::StepPoint point = {};  // else a step
  };
  void queue(Entry entry);
  void write_all();
  void write(const Entry& entry);
  std::string open_file(const Entry& entry);  // returns the complaint, or ""
  std::string append(const std::string& event);
  void give_up(const std::string& what);

  const std::string root_;
  const OnFailure on_failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::deque<Entry> entries_;
  int64_t dropped_ = 0;
  int64_t world_size_ = 0;  // of the thread that begins and adds
  // of the thread that writes
  int file_ = -1;
  Entry begun_;       // the generation
  bool due_ = false;  // its file is opened with its first step
  std::thread writer_;
};

}  // namespace holdfast::worker
