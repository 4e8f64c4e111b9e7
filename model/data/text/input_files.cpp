#include "model/data/text/input_files.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

namespace holdfast::model {

namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

tl::expected<std::vector<std::string>, std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  try {
    for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator(); ++entry) {
      if (is_hidden(entry->path())) {
        entry.disable_recursion_pending();
      } else if (entry->is_regular_file()) {
        files.push_back(entry->path().string());
      }
    }
  } catch (const fs::filesystem_error& error) {
    return tl::unexpected(folder + ": cannot be walked: " + error.code().message() + " (" + error.path1().string() + ")");
  }
  std::ranges::sort(files);
  if (files.empty()) return tl::unexpected(folder + ": has no files in it. Give a folder with UTF-8 text.");
  return files;
}

}  // namespace

tl::expected<std::vector<std::string>, std::string> list_input_files(const std::vector<std::string>& inputs) {
  if (inputs.empty()) return tl::unexpected(std::string("no input was given: name files or folders of UTF-8 text."));
  std::vector<std::string> files;
  std::set<std::string> seen;
  const auto add = [&](const std::string& path) {
    std::error_code error;
    const fs::path canonical = fs::canonical(path, error);
    if (seen.insert(error ? path : canonical.string()).second) files.push_back(path);
  };
  for (const std::string& input : inputs) {
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    if (!fs::exists(status)) return tl::unexpected(input + ": no such file or folder.");
    if (!fs::is_directory(status) && !fs::is_regular_file(status)) {
      return tl::unexpected(input + ": is no regular file, expected one: it is read twice. Write it to a file first.");
    }
    if (!fs::is_directory(status)) {
      add(input);
      continue;
    }
    const auto below = files_below(input);
    if (!below) return tl::unexpected(below.error());
    std::ranges::for_each(*below, add);
  }
  return files;
}

}  // namespace holdfast::model
