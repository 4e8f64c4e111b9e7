#include "worker/session/data_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <tuple>
#include <utility>

#include "rendezvous/protocol/data_source.h"

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;
using rendezvous::DataSource;

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

tl::expected<void, std::string> check_length(const std::string& named, const model::TokenFile& file, int64_t block_size) {
  const auto tokens = static_cast<int64_t>(file.tokens().size());
  if (tokens > block_size) return {};
  return tl::unexpected(named + ": has " + std::to_string(tokens) + " tokens, but one sequence takes block_size + 1 = " +
                        std::to_string(block_size + 1) + ": choose a larger file or a smaller block_size");
}

tl::expected<CheckedFile, std::string> open_path(const std::string& given, const std::string& data_root,
                                                 const rendezvous::JobSpec& spec) {
  auto path = resolve_data_path(given, data_root);
  if (!path) return tl::unexpected(path.error());
  auto file = model::TokenFile::open(*path);
  if (!file) return tl::unexpected(file.error());
  if (auto enough = check_length(*path, **file, spec.block_size); !enough) return tl::unexpected(enough.error());
  auto digest = checked_digest(**file, spec.vocab_size);
  if (!digest) return tl::unexpected(digest.error());
  return CheckedFile{std::move(*file), std::move(*digest), nullptr};
}

// The data set's word about the file is believed until the file is here (DataSetOpener).
tl::expected<CheckedFile, std::string> open_in_set(const DataSource& source, const DataPlaces& places,
                                                   const rendezvous::JobSpec& spec) {
  const std::string named = "data:" + source.set + "/" + source.file;
  if (places.data_sets == nullptr) return tl::unexpected(named + ": this worker has no way to fetch data sets");
  auto opened = places.data_sets->open(source, places.stop);
  if (!opened) return tl::unexpected(opened.error());
  auto file = model::TokenFile::open(opened->path);
  if (!file) return tl::unexpected(file.error());
  if (auto enough = check_length(named, **file, spec.block_size); !enough) return tl::unexpected(enough.error());
  if (static_cast<int64_t>((*file)->tokens().size()) != opened->tokens) {
    return tl::unexpected(named + ": has " + std::to_string((*file)->tokens().size()) + " tokens, and the data set says " +
                          std::to_string(opened->tokens) + ": push it again");
  }
  if (opened->largest_id >= spec.vocab_size) {
    return tl::unexpected(named + ": has the id " + std::to_string(opened->largest_id) + ", which is not below vocab_size " +
                          std::to_string(spec.vocab_size) + ": set vocab_size to the tokenizer's");
  }
  return CheckedFile{std::move(*file), std::move(opened->digest), std::move(opened->arrival)};
}

tl::expected<CheckedFile, std::string> open_source(const DataSource& source, const DataPlaces& places,
                                                   const rendezvous::JobSpec& spec) {
  return source.in_set() ? open_in_set(source, places, spec) : open_path(source.path, places.data_root, spec);
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

tl::expected<DataFiles, std::string> open_data_files(const rendezvous::JobSpec& spec, const DataPlaces& places) {
  const auto sources = rendezvous::parse_training_sources(spec.train_data_path);
  if (!sources) return tl::unexpected("train_data_path: " + sources.error());
  DataFiles files;
  for (const DataSource& source : *sources) {
    auto opened = open_source(source, places, spec);
    if (!opened) return tl::unexpected(opened.error());
    files.training.push_back({*std::move(opened), source.share});
  }
  if (spec.valid_data_path.empty()) return files;
  const auto source = rendezvous::parse_validation_source(spec.valid_data_path);
  if (!source) return tl::unexpected("valid_data_path: " + source.error());
  auto validation = open_source(*source, places, spec);
  if (!validation) return tl::unexpected(validation.error());
  files.validation = std::move(validation->file);
  files.validation_arrival = std::move(validation->arrival);
  files.validation_digest = std::move(validation->digest);
  return files;
}

int64_t DataFiles::training_tokens() const {
  int64_t tokens = 0;
  for (const TrainingFile& training_file : training) tokens += static_cast<int64_t>(training_file.file->tokens().size());
  return tokens;
}

std::string DataFiles::training_paths() const {
  std::vector<DataSource> sources;
  for (const TrainingFile& training_file : training)
    sources.push_back({.path = training_file.file->path(), .set = {}, .digest = {}, .file = {}, .share = training_file.share});
  return rendezvous::to_text(sources);
}

rendezvous::TrainingDigest DataFiles::digest() const {
  rendezvous::TrainingDigest all;
  for (const TrainingFile& training_file : training)
    all.sources.push_back({training_file.digest, training.size() > 1 ? std::to_string(training_file.share) : ""});
  all.validation = validation_digest;
  return all;
}

}  // namespace holdfast::worker
