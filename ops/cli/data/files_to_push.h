// The files of a folder that `holdfast data push` takes: the regular ones at its top whose names a data set may have.
//
// Thread: any; the functions block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::ops {

// The marks by which a change of a file is noticed.
struct FileMarks {
  int64_t bytes = 0, changed_ns = 0;
  uint64_t inode = 0;
  bool operator==(const FileMarks&) const = default;
};

struct FileToPush {
  std::string name, path;
  FileMarks marks;
};
struct Skipped {
  std::string name, why;
};
struct FilesToPush {
  std::vector<FileToPush> files;  // by name
  std::vector<Skipped> skipped;
  std::string name;  // of the data set, where none was given: the folder's, or the file's without its ending
  int64_t bytes = 0;
};

// `path`: a folder, or one file. Throws a Failure: nothing there, nothing to push, too much.
FilesToPush find_files_to_push(const std::string& path);
// Throws a Failure where the file cannot be looked at.
FileMarks marks_of(const std::string& path);

}  // namespace holdfast::ops
