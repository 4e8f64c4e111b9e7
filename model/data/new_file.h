// A file that takes its name only when it is whole: written under a temporary name beside it, made durable there, renamed.
// A reader never sees half a file, and until `publish` whatever was there before is as it was.
// Refuses: a full disk, a folder that cannot be written; with the final path.
#pragma once

#include <cstdio>
#include <string>
#include <tl/expected.hpp>

namespace holdfast::model {

class NewFile {
 public:
  explicit NewFile(std::string path);
  ~NewFile();  // removes the temporary file unless published
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_; }

  // The first failure since the start is kept, and said by `finish`.
  void write(const void* bytes, size_t count);
  bool has_failed() const { return error_ != 0; }  // writing more is in vain
  void rewind();                                   // the next write replaces the beginning of the file

  // Whole and durable under its temporary name, which can be read from now on.
  tl::expected<void, std::string> finish();
  // Durable under its final name, in the place of what had it. Needs a `finish` that succeeded.
  tl::expected<void, std::string> publish();

 private:
  std::string path_, temporary_;
  std::FILE* file_;
  int error_ = 0;  // errno of the first failure
  bool is_there_;  // the temporary file is
};

// Durable when it returns. Removing what is not there is a success.
tl::expected<void, std::string> remove_file(const std::string& path);

}  // namespace holdfast::model
