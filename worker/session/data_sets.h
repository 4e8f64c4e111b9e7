// The seam to files that are fetched: a job names data:NAME, and somebody brings the data set's files to this machine, in
// pieces. Training begins before the last has come.
//
// Thread: one, the train thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/data/training_data.h"
#include "rendezvous/protocol/data_source.h"
#include "storage/object_store.h"

namespace holdfast::worker {

// A stretch of a token file.
struct TokenRange {
  int64_t first = 0, count = 0;
};

// The arrival of a token file.
class FileArrival : public model::DataArrival {
 public:
  // To be fetched before what is wanted otherwise, in this order.
  virtual void expect(std::span<const TokenRange> ranges) = 0;
  // Waits until the range is here. False: the wait was stopped. The error is a sentence: it will never come.
  virtual tl::expected<bool, std::string> bring(TokenRange range) = 0;

  // The same in the middle of a step: throws model::Interrupted, or the sentence.
  void wait_for(size_t first_token, size_t count) final;
};

class DataSetOpener {
 public:
  virtual ~DataSetOpener() = default;

  struct OpenedFile {
    std::string path;  // has its full length, and its first bytes
    int64_t tokens = 0, largest_id = 0;
    std::string digest;  // TokenFile::digest
    std::shared_ptr<FileArrival> arrival;
  };
  // The job that the next files are for, and all that it names: what else was fetched may be let go.
  virtual void begin(const std::string& job, const std::vector<rendezvous::DataSource>& sources) = 0;
  // Waits for the file's first bytes, at most until *stop; later waits end with it, too. Errors are sentences for the user.
  virtual tl::expected<OpenedFile, std::string> open(const rendezvous::DataSource& source, const std::atomic<bool>* stop) = 0;
};

// Where the files of a job are found.
struct DataPlaces {
  std::string data_root;                    // paths are below it; "": anywhere
  DataSetOpener* data_sets = nullptr;       // null: there are none
  const std::atomic<bool>* stop = nullptr;  // ends waits for data, and reads of checkpoints
  // Opens the checkpoints of any job; reads of them end soon once *stop is true. Null: none but those in folders below
  // data_root.
  std::function<storage::Result<std::unique_ptr<storage::ObjectStore>>(const std::string& store, const std::string& job,
                                                                       const std::atomic<bool>* stop)>
      open_store = nullptr;
};

}  // namespace holdfast::worker
