// A token file is written whole before it gets its name.
#include "rendezvous/data_dir/bearer_token.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <span>

#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/random_hex.h"
#include "storage/file_system.h"

namespace holdfast::rendezvous {
namespace {

// Replaces the temporary file that a killed service may have left.
storage::Step write_durably(const std::string& path, const std::string& text) {
  const auto files = storage::posix_file_system();
  const std::string temporary = path + ".new";
  static_cast<void>(files->unlink(temporary));
  const auto bytes = std::as_bytes(std::span(text));
  if (auto written = storage::write_and_rename(*files, temporary, path, bytes, storage::Readers::kOwner); !written)
    return written;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (const auto synced = files->sync_directory(folder.empty() ? "." : folder); !synced)
    return tl::unexpected(storage::FailedCall{synced.error(), "fsync the folder " + folder});
  return {};
}

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

}  // namespace

tl::expected<std::string, std::string> load_or_make_token(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    const std::string token = random_hex(32);
    if (const auto written = write_durably(path, fmt::format("{}\n", token)); !written) {
      return tl::unexpected(fmt::format("cannot write the token file {}: {}; choose a --data_dir that can be written", path,
                                        describe_errno(written.error().error)));
    }
    return token;
  }
  const std::string token = first_word(path);
  if (token.size() < 16) {
    return tl::unexpected(
        fmt::format("the token file {} does not hold a token (at least 16 characters expected, {} found): remove it, and a "
                    "new one is made",
                    path, token.size()));
  }
  return token;
}

}  // namespace holdfast::rendezvous
