// The data sets below DATA_DIR/data: chunks/<2 digits>/<sha256>, sets/<digest>.json (manifest, key, time), names/<name>.json.
//
// Promises: a put is durable when it returns, and whole or absent after a crash. A chunk is verified against its name when it
// is read; one that is damaged is set aside (<sha256>.damaged, removed by a start a day later), so that it counts as missing
// from then on. The folder is made by the first put. load() reads no chunk: it takes the size of each from the folder.
// Refuses: chunks that would leave less than kKeptFree of the disk, which the database needs (kNoSpace).
// Thread: any; the functions block.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "rendezvous/data_sets/catalogue.h"
#include "storage/object_store.h"

namespace holdfast::rendezvous {

class DataSetFiles {
 public:
  static constexpr int64_t kKeptFree = int64_t{256} << 20;

  // Names of the data sets that lie there, also below a service that runs; nothing is changed.
  static std::vector<std::string> names_in(const std::string& data_dir);

  explicit DataSetFiles(const std::string& data_dir) : folder_(data_dir + "/data") {}

  // Call it before anybody can put: what crashed puts left unfinished is removed.
  FoundDataSets load(int64_t now_ms);

  storage::Result<void> put_chunk(const std::string& name, std::span<const std::byte> bytes);
  storage::Result<storage::Bytes> get_chunk(const std::string& name);
  // Names of chunks whose files are gone; a crash may bring some back, which then count as pushed by nobody.
  std::vector<std::string> remove_chunks(std::span<const std::string> names);

  storage::Result<void> put_set(const KeptDataSet& set);
  storage::Result<void> put_name(const DataSetName& name);
  storage::Result<void> remove_set(const std::string& digest);
  storage::Result<void> remove_name(const std::string& name);

 private:
  storage::Result<std::shared_ptr<storage::ObjectStore>> store(storage::MissingFolder missing);
  storage::Result<void> put(const std::string& key, std::span<const std::byte> bytes);
  storage::Result<void> remove(const std::string& key);
  void load_sets(storage::ObjectStore& files, FoundDataSets& found) const;
  void load_names(storage::ObjectStore& files, FoundDataSets& found) const;
  void load_chunks(FoundDataSets& found, int64_t now_ms) const;

  const std::string folder_;
  std::mutex mutex_;  // guards the next field
  std::shared_ptr<storage::ObjectStore> store_;
};

}  // namespace holdfast::rendezvous
