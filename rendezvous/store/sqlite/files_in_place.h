// Whether the files of an open database still have their names.
//
// SQLite goes on writing to a file that was removed or renamed, and says nothing: all that it takes from then on is gone when
// the process ends. So the identity (device and inode) of the file, its write-ahead log and its index are noted when it is
// opened, and compared with what has their names now. Costs three calls of stat(2). Thread: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace holdfast::rendezvous {

class FilesInPlace {
 public:
  enum class Loss {
    kNone,
    kOfLog,  // only the write-ahead log or its index has no name: the database can take the log's rows in
    kOfAll,  // a database opened under this path would lack what this one holds
  };

  // Of a database whose write-ahead log was begun. ":memory:" has no files and loses none.
  explicit FilesInPlace(std::string database);

  Loss loss() const;
  // "DIR/holdfast.sqlite was removed", or "… was replaced by another file": the first file that is not in place.
  std::string what_happened() const;

 private:
  using Identity = std::pair<uint64_t, uint64_t>;
  enum class Fate { kThere, kRemoved, kReplaced };
  static std::optional<Identity> identity_of(const std::string& path, bool& removed);
  Fate fate_of(size_t file) const;

  std::array<std::string, 3> paths_;
  std::array<std::optional<Identity>, 3> opened_;  // none: there was no such file, and none is missed
};

}  // namespace holdfast::rendezvous
