// The keeper of the data sets: the catalogue in memory, the files below DATA_DIR/data, and the threads between them.
//
// Promises: the catalogue says that something is there only after it is durable, and forgets it before its file goes. Manifests
// and names are written and removed in the order in which they were asked for, by one thread; chunks by others. A data set that
// has no name and that no open job uses goes; chunks that no data set needs go a day after a push had to do with them.
// Thread: the owner's; `work` runs on a thread of the pools.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"
#include "rendezvous/data_dir/data_set_files.h"
#include "rendezvous/data_sets/catalogue.h"
#include "rendezvous/http/work_pool.h"

namespace holdfast::rendezvous {

class DataKeeper {
 public:
  // Loads what is there. `limit_bytes`: of chunks; 0: none beyond the disk.
  DataKeeper(Turn& turn, const std::string& data_dir, int64_t limit_bytes, int threads);

  Turn& turn() { return turn_; }
  Catalogue& catalogue() { return catalogue_; }
  const Catalogue& catalogue() const { return catalogue_; }
  int64_t limit_bytes() const { return limit_bytes_; }

  // Does `work` elsewhere, then `then` on the owner's thread with its outcome, once; also where the work threw, or there is too
  // much to do (kUnavailable). `then` does not come when the service ends first: whoever waits is answered 503.
  template <typename T>
  using Work = std::function<storage::Result<T>(DataSetFiles&)>;
  template <typename T>
  using Then = std::function<void(storage::Result<T>)>;
  template <typename T>
  void on_chunks(Work<T> work, Then<T> then) {
    post(chunks_pool_, std::move(work), std::move(then));
  }
  template <typename T>
  void on_books(Work<T> work, Then<T> then) {
    post(books_pool_, std::move(work), std::move(then));
  }

  std::map<std::string, std::set<std::string>> jobs_by_digest() const;  // of jobs that are not over
  // Drops data sets that nobody can ask for any more, with the chunks that no other needs.
  void drop_unused();
  // Gives up stale chunks: when the limit is reached, when a data set is removed, at the start, and every hour.
  void drop_stale();
  bool is_making_room() const { return removing_ || !going_.empty(); }
  void tend();  // once in a tick
  void finish();

 private:
  template <typename T>
  void post(WorkPool& pool, Work<T> work, Then<T> then);
  void drop(const std::string& digest, bool with_chunks);
  void remove_chunks(std::vector<std::string> names);
  void remove_next();
  void complain_of_lacking();

  Turn& turn_;
  const int64_t limit_bytes_;
  DataSetFiles files_;
  Catalogue catalogue_;
  std::deque<std::string> going_;  // chunks whose files are to be removed
  bool removing_ = false, began_ = false;
  int64_t tended_ms_ = 0, dropped_stale_ms_ = 0;
  WorkPool chunks_pool_, books_pool_;  // last: their work uses the others
};

template <typename T>
void DataKeeper::post(WorkPool& pool, Work<T> work, Then<T> then) {
  const auto back = [commands = turn_.commands, then = std::move(then)](storage::Result<T> outcome) {
    commands->add_result([then, outcome = std::move(outcome)]() mutable { then(std::move(outcome)); });
  };
  const auto fail = [back](const std::string& why) {
    back(tl::unexpected(storage::Error{storage::Error::Code::kUnavailable, why}));
  };
  const bool posted = pool.post([this, back, work = std::move(work)] { back(work(files_)); }, fail);
  if (!posted) fail("too many data chunks are being read and written: try again");
}

}  // namespace holdfast::rendezvous
