// A folder's objects of which some stay readable after they were removed: a running job removes its older checkpoints
// (keep_last), perhaps while somebody with a slow line still downloads one.
//
// Promises: an object that was held is read as it was then, because its file stays open: the name may go, and another file may
// take it. Files are closed with the store. Bounds: kFilesMax; objects beyond that, and those that cannot be opened, are not
// held, and read as if they had never been asked for.
// Thread: any, one at a time.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "storage/object_store.h"

namespace holdfast::rendezvous {

class HeldObjects : public storage::ForwardingStore {
 public:
  static constexpr size_t kFilesMax = 256;  // of some 32 MB each; connections need files, too

  // `store` is of the objects in `folder`.
  HeldObjects(std::unique_ptr<storage::ObjectStore> store, std::string folder);
  ~HeldObjects() override;
  HeldObjects(const HeldObjects&) = delete;

  storage::Result<void> keep(const std::string& key);  // a small one, in memory
  void hold(const std::string& key);
  storage::Result<storage::Bytes> get(const std::string& key) override;

 private:
  const std::string folder_;
  std::map<std::string, storage::Bytes> kept_;
  std::map<std::string, int> files_;
};

}  // namespace holdfast::rendezvous
