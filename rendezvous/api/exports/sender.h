// Exports at work: a few threads that read checkpoints and send what comes of it.
//
// Promises: at most kAtOnce exports are prepared, wait for their reader or are sent at any time, so that checkpoints of running
// jobs have the disk. cancel() cuts those that are being sent, and none keeps the service from ending.
// Thread: any. Outlives the service for as long as an answer that it made is not sent.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "rendezvous/api/exports/model_download.h"
#include "rendezvous/http/work_pool.h"

namespace holdfast::rendezvous {

class ExportSender : public std::enable_shared_from_this<ExportSender> {
 public:
  static constexpr int kAtOnce = 2;

  ExportSender() : pool_(kAtOnce, kAtOnce) {}

  // Room for one more export, given back when the last copy is gone. Null: there is none.
  std::shared_ptr<void> take_room();
  // False: it is stopping.
  bool post(std::function<void()> work, WorkPool::Failed failed) { return pool_.post(std::move(work), std::move(failed)); }
  // 200 with the file, which is read while it is sent.
  HttpResponse answer(std::shared_ptr<ModelDownload> download);
  std::shared_ptr<const std::atomic<bool>> stopping() const { return stopping_; }
  void cancel();  // takes no more, and ends what is under way soon
  void finish() { pool_.finish(); }

 private:
  void send(const std::shared_ptr<ModelDownload>& download, const std::shared_ptr<EventStream>& stream);
  bool enter(const std::shared_ptr<EventStream>& stream);
  void leave(const EventStream* stream);

  const std::shared_ptr<std::atomic<int>> taken_ = std::make_shared<std::atomic<int>>(0);
  const std::shared_ptr<std::atomic<bool>> stopping_ = std::make_shared<std::atomic<bool>>(false);
  std::mutex mutex_;
  std::vector<std::shared_ptr<EventStream>> streams_;  // that are being written
  WorkPool pool_;                                      // last: its work uses the others
};

}  // namespace holdfast::rendezvous
