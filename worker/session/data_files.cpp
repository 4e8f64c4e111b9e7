#include "worker/session/data_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <tuple>

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;

// Whether `path` is `root` or below it; both canonical.
bool is_below(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

// The findings about files, by (path, size, time of change, vocabulary).
using Fingerprint = std::tuple<std::string, uintmax_t, fs::file_time_type::rep, int64_t>;

tl::expected<std::string, std::string> checked_digest(const model::TokenFile& file, int64_t vocab_size) {
  static std::mutex mutex;
  static std::map<Fingerprint, std::string> known;
  std::error_code error;
  const auto size = fs::file_size(file.path(), error);
  const auto time = fs::last_write_time(file.path(), error);
  const Fingerprint key{file.path(), size, time.time_since_epoch().count(), vocab_size};
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); !error && found != known.end()) return found->second;
  if (auto checked = file.check_ids(vocab_size); !checked) return tl::unexpected(checked.error());
  auto digest = file.digest();
  if (!error) known[key] = digest;
  return digest;
}

struct CheckedFile {
  std::shared_ptr<const model::TokenFile> file;
  std::string digest;
};

tl::expected<CheckedFile, std::string> open_checked(const std::string& given, const std::string& data_root,
                                                    const rendezvous::JobSpec& spec) {
  auto path = resolve_data_path(given, data_root);
  if (!path) return tl::unexpected(path.error());
  auto file = model::TokenFile::open(*path);
  if (!file) return tl::unexpected(file.error());
  const auto tokens = static_cast<int64_t>((*file)->tokens().size());
  if (tokens <= spec.block_size) {
    return tl::unexpected(*path + ": has " + std::to_string(tokens) + " tokens, but one sequence takes block_size + 1 = " +
                          std::to_string(spec.block_size + 1) + ": choose a larger file or a smaller block_size");
  }
  auto digest = checked_digest(**file, spec.vocab_size);
  if (!digest) return tl::unexpected(digest.error());
  return CheckedFile{std::move(*file), std::move(*digest)};
}

}  // namespace

tl::expected<std::string, std::string> resolve_data_path(const std::string& path, const std::string& data_root) {
  if (data_root.empty()) return path;
  std::error_code error;
  const fs::path root = fs::weakly_canonical(data_root, error);
  const fs::path full = error ? fs::path() : fs::weakly_canonical(root / path, error);
  if (error) return tl::unexpected(path + ": cannot be resolved below --data_root " + data_root + ": " + error.message());
  if (!is_below(full, root)) {
    return tl::unexpected(path + ": leads to " + full.string() + ", which is outside this worker's --data_root " +
                          root.string() + ": give a path below it");
  }
  return full.string();
}

tl::expected<DataFiles, std::string> open_data_files(const rendezvous::JobSpec& spec, const std::string& data_root) {
  auto train = open_checked(spec.train_data_path, data_root, spec);
  if (!train) return tl::unexpected(train.error());
  DataFiles files{
      .train = std::move(train->file), .validation = nullptr, .digest = std::move(train->digest), .validation_digest = {}};
  if (spec.valid_data_path.empty()) return files;
  auto validation = open_checked(spec.valid_data_path, data_root, spec);
  if (!validation) return tl::unexpected(validation.error());
  files.validation = std::move(validation->file);
  files.validation_digest = std::move(validation->digest);
  return files;
}

}  // namespace holdfast::worker
