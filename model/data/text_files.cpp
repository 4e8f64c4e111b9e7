#include "model/data/text_files.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>

#include "model/data/utf8.h"

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

// gzopen reads plain files as they are, so one path serves both.
tl::expected<std::string, std::string> read_bytes(const std::string& path) {
  errno = 0;
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen(path.c_str(), "rb"), &gzclose);
  if (file == nullptr) return tl::unexpected(path + ": cannot be opened: " + std::generic_category().message(errno));
  constexpr unsigned kPieceBytes = 1 << 18;
  gzbuffer(file.get(), kPieceBytes);
  std::string text;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kPieceBytes);
    const int got = gzread(file.get(), text.data() + before, kPieceBytes);
    text.resize(before + static_cast<size_t>(std::max(got, 0)));
    int status = Z_OK;
    const char* message = gzerror(file.get(), &status);
    if (got < 0 || status == Z_BUF_ERROR) {  // Z_BUF_ERROR at the end of the file: the compressed stream is cut short
      return tl::unexpected(path + ": cannot be read beyond byte " + std::to_string(text.size()) + " of its text: " +
                            (status == Z_ERRNO ? std::generic_category().message(errno) : std::string(message)) +
                            ". The file is damaged or truncated; copy it again.");
    }
    if (got == 0) return text;
  }
}

}  // namespace

tl::expected<std::vector<std::string>, std::string> list_text_files(const std::vector<std::string>& inputs) {
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

tl::expected<std::string, std::string> read_text_file(const std::string& path) {
  tl::expected<std::string, std::string> text = read_bytes(path);
  if (!text) return text;
  const size_t nul = text->find('\0');
  const size_t invalid = std::min(nul, first_invalid_utf8(*text));
  if (invalid != std::string::npos) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "0x%02x", static_cast<unsigned>(static_cast<unsigned char>((*text)[invalid])));
    return tl::unexpected(path + ": byte " + std::to_string(invalid) + " (" + hex + ") is not UTF-8 text" +
                          (invalid == nul ? ", so this looks like a binary file. Leave it out."
                                          : ". Convert the file, for example `iconv -f GB18030 -t UTF-8` or `iconv -f LATIN1 "
                                            "-t UTF-8`, or leave it out."));
  }
  if (text->starts_with("\xEF\xBB\xBF")) text->erase(0, 3);
  return text;
}

}  // namespace holdfast::model
