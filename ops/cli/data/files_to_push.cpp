#include "ops/cli/data/files_to_push.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "ops/cli/command/command.h"
#include "rendezvous/protocol/data_set.h"
#include "rendezvous/protocol/data_source.h"
#include "rendezvous/text/errno_text.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;
using rendezvous::is_data_name;

void take(FilesToPush& found, const std::string& path, const std::string& name) {
  const FileMarks marks = marks_of(path);
  found.files.push_back({name, path, marks});
  found.bytes += marks.bytes;
}

// "": it is taken.
std::string why_not(const fs::directory_entry& entry, const std::string& name) {
  std::error_code ignored;
  if (entry.is_directory(ignored)) return "is a folder";
  if (!entry.is_regular_file(ignored)) return "is no regular file";
  if (!is_data_name(name)) {
    return fmt::format(
        "has a name that no file of a data set may have (1 to {} letters, digits and ._- , not beginning with a dot)",
        rendezvous::kDataNameBytesMax);
  }
  return "";
}

void look_into(FilesToPush& found, const std::string& folder) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (std::string why = why_not(entry, name); why.empty()) {
      take(found, entry.path().string(), name);
    } else {
      found.skipped.push_back({name, std::move(why)});
    }
  }
  if (failed) throw Failure{kBadInput, fmt::format("cannot read the folder {}: {}", folder, failed.message())};
  std::ranges::sort(found.files, {}, &FileToPush::name);
  std::ranges::sort(found.skipped, {}, &Skipped::name);
}

}  // namespace

FileMarks marks_of(const std::string& path) {
  struct stat now {};
  if (stat(path.c_str(), &now) != 0)
    throw Failure{kBadInput, fmt::format("cannot look at {}: {}", path, rendezvous::describe_errno(errno))};
  return {now.st_size, now.st_mtim.tv_sec * int64_t{1'000'000'000} + now.st_mtim.tv_nsec, now.st_ino};
}

FilesToPush find_files_to_push(const std::string& path) {
  FilesToPush found;
  std::error_code ignored;
  const fs::path absolute = fs::weakly_canonical(path, ignored);
  if (fs::is_directory(path, ignored)) {
    found.name = absolute.filename().string();
    look_into(found, path);
  } else {
    const std::string name = fs::path(path).filename().string();
    found.name = fs::path(path).stem().string();
    if (!is_data_name(name))
      throw Failure{kBadInput, fmt::format("{}: {} is no name that a file of a data set may have: rename it", path, name)};
    take(found, path, name);
  }
  if (found.bytes == 0)
    throw Failure{kBadInput,
                  fmt::format("{}: there is no file to push; `holdfast data prepare TEXT --output {}` makes some", path, path)};
  if (found.files.size() > rendezvous::kDataSetFilesMax || found.bytes > rendezvous::kDataSetBytesMax) {
    throw Failure{
        kBadInput,
        fmt::format("{}: has {} files with {} bytes, and a data set may have {} with {}: push a folder with fewer", path,
                    found.files.size(), found.bytes, rendezvous::kDataSetFilesMax, rendezvous::kDataSetBytesMax)};
  }
  return found;
}

}  // namespace holdfast::ops
