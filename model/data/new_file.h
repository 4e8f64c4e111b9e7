// A file that takes its name only when it is whole: written under a temporary name beside it, made durable there, renamed.
// A reader never sees half a file, and until `publish` whatever was there before is as it was.
// Refuses: a full disk, a folder that cannot be written, a file that another process writes; with the final path.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <tl/expected.hpp>

namespace holdfast::model {

class NewFile {
 public:
  // `kept`: bytes of the temporary file that an earlier process left (keep), which this one goes on from and leaves, too.
  explicit NewFile(std::string path, std::optional<int64_t> kept = std::nullopt);
  ~NewFile();  // removes the temporary file unless published or kept
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_; }

  // The first failure since the start is kept, and said by `finish`.
  void write(const void* bytes, size_t count);
  bool has_failed() const { return error_ != 0; }  // writing more is in vain
  tl::expected<void, std::string> state() const;   // the first failure so far
  void rewind();                                   // the next write replaces the beginning of the file
  // Durable so far, and from now on the temporary file stays when the process ends or this object does.
  tl::expected<void, std::string> keep();

  // Whole and durable under its temporary name, which can be read from now on.
  tl::expected<void, std::string> finish();
  // Durable under its final name, in the place of what had it. Needs a `finish` that succeeded.
  tl::expected<void, std::string> publish();

 private:
  std::string path_, temporary_;
  std::FILE* file_;
  int error_ = 0;  // errno of the first failure
  bool is_there_;  // the temporary file is, and goes away with this object
};

// Durable when it returns. Removing what is not there is a success.
tl::expected<void, std::string> remove_file(const std::string& path);

}  // namespace holdfast::model
