#include "rendezvous/data_dir/data_set_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "rendezvous/protocol/data_source.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/text/sha256.h"
#include "storage/file_system.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using storage::Error;
using storage::MissingFolder;

constexpr const char* kDamaged = ".damaged";
constexpr const char* kUnfinished = ".";  // no name of a chunk begins so: puts that were cut off do
constexpr int64_t kDamagedKeptMs = ChunkShelf::kKeptMs;

std::string chunk_key(const std::string& name) {
  return "chunks/" + name.substr(0, 2) + "/" + name;
}
std::string set_key(const std::string& digest) {
  return "sets/" + digest + ".json";
}
std::string name_key(const std::string& name) {
  return "names/" + name + ".json";
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The text between the folder and ".json".
std::string stem_of(const std::string& key) {
  return fs::path(key).stem().string();
}

struct FileLook {
  int64_t bytes = 0, changed_ms = 0;
};

// One call to the system for each file: there may be a hundred thousand. None: no regular file.
std::optional<FileLook> look_at(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return FileLook{found.st_size, found.st_mtim.tv_sec * int64_t{1000} + found.st_mtim.tv_nsec / 1'000'000};
}

Json parsed(const storage::Bytes& bytes) {
  return Json::parse(reinterpret_cast<const char*>(bytes.data()), reinterpret_cast<const char*>(bytes.data() + bytes.size()),
                     nullptr, false);
}

tl::expected<KeptDataSet, std::string> read_set(const storage::Bytes& bytes, const std::string& digest) {
  const Json json = parsed(bytes);
  if (!json.is_object() || !json.contains("manifest")) return tl::unexpected(std::string("is no manifest"));
  auto manifest = data_manifest_from_json(json["manifest"]);
  if (!manifest) return tl::unexpected(manifest.error());
  const std::string found = manifest->digest();
  if (found != digest) return tl::unexpected(fmt::format("has the digest {}, not its name's", found));
  const auto key = json.find("key"), pushed = json.find("pushed_ms");
  if (key == json.end() || !key->is_string() || pushed == json.end() || !pushed->is_number_integer())
    return tl::unexpected(std::string("has no key or no time"));
  return KeptDataSet{digest, std::make_shared<DataManifest>(*std::move(manifest)), key->get<std::string>(),
                     pushed->get<int64_t>()};
}

tl::expected<DataSetName, std::string> read_name(const storage::Bytes& bytes, const std::string& name) {
  const Json json = parsed(bytes);
  if (!json.is_object() || !json.contains("digest") || !json["digest"].is_string() || !json.contains("named_ms") ||
      !json["named_ms"].is_number_integer())
    return tl::unexpected(std::string("is no name of a data set"));
  return DataSetName{name, json["digest"].get<std::string>(), json["named_ms"].get<int64_t>()};
}

// Reads each object below `prefix` and gives it to `take`, which says what is wrong with it.
template <typename Take>
void read_all(storage::ObjectStore& files, const std::string& prefix, std::vector<std::string>& troubles, const Take& take) {
  const auto keys = files.list(prefix);
  if (!keys) troubles.push_back(keys.error().message);
  for (const std::string& key : keys.value_or(std::vector<std::string>{})) {
    if (!key.ends_with(".json")) continue;
    const auto bytes = files.get(key);
    const std::string wrong = bytes ? take(stem_of(key), *bytes) : bytes.error().message;
    if (!wrong.empty())
      troubles.push_back(fmt::format("{}/{}: {}: it is not used; push the data set again", files.describe(), key, wrong));
  }
}

}  // namespace

storage::Result<std::shared_ptr<storage::ObjectStore>> DataSetFiles::store(MissingFolder missing) {
  const std::lock_guard lock(mutex_);
  if (store_) return store_;
  auto opened = storage::open_directory_store(folder_, missing, storage::posix_file_system(storage::Writing::kInBackground));
  if (!opened) return tl::unexpected(opened.error());
  store_ = *std::move(opened);
  return store_;
}

std::vector<std::string> DataSetFiles::names_in(const std::string& data_dir) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(data_dir + "/data/names", ignored)) {
    if (entry.path().extension() == ".json" && is_data_name(entry.path().stem().string()))
      names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

FoundDataSets DataSetFiles::load(int64_t now_ms) {
  FoundDataSets found;
  std::error_code ignored;
  if (!fs::is_directory(folder_, ignored)) return found;
  const auto files = store(MissingFolder::kFail);
  if (!files) {
    found.troubles.push_back(files.error().message);
    return found;
  }
  const std::string chunks[] = {"chunks/"};  // load_chunks() looks at each of them anyway
  if (const auto tidied = (*files)->remove_unfinished(chunks); !tidied) found.troubles.push_back(tidied.error().message);
  load_sets(**files, found);
  load_names(**files, found);
  load_chunks(found, now_ms);
  return found;
}

void DataSetFiles::load_sets(storage::ObjectStore& files, FoundDataSets& found) const {
  read_all(files, "sets/", found.troubles, [&](const std::string& digest, const storage::Bytes& bytes) -> std::string {
    auto set = read_set(bytes, digest);
    if (!set) return set.error();
    found.sets.push_back(*std::move(set));
    return "";
  });
}

void DataSetFiles::load_names(storage::ObjectStore& files, FoundDataSets& found) const {
  read_all(files, "names/", found.troubles, [&](const std::string& stem, const storage::Bytes& bytes) -> std::string {
    auto name = read_name(bytes, stem);
    if (!name) return name.error();
    const bool is_there = std::ranges::any_of(found.sets, [&](const KeptDataSet& set) { return set.digest == name->digest; });
    if (!is_there) return fmt::format("the manifest {} that it names is not there", name->digest);
    found.names.push_back(*std::move(name));
    return "";
  });
}

void DataSetFiles::load_chunks(FoundDataSets& found, int64_t now_ms) const {
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator(folder_ + "/chunks", ignored)) {
    for (const auto& entry : fs::directory_iterator(folder.path(), ignored)) {
      const std::string name = entry.path().filename().string();
      const auto file = look_at(entry.path().string());
      if (!file) continue;
      const bool is_old = name.ends_with(kDamaged) && now_ms >= file->changed_ms + kDamagedKeptMs;
      if (is_old || name.starts_with(kUnfinished)) fs::remove(entry.path(), ignored);
      if (is_sha256_hex(name) && file->bytes > 0 && file->bytes <= kChunkBytes)
        found.chunks.push_back({name, file->bytes, file->changed_ms});
    }
  }
}

storage::Result<void> DataSetFiles::put(const std::string& key, std::span<const std::byte> bytes) {
  const auto files = store(MissingFolder::kMake);
  if (!files) return tl::unexpected(files.error());
  return (*files)->put(key, bytes);
}

storage::Result<void> DataSetFiles::remove(const std::string& key) {
  const auto files = store(MissingFolder::kFail);
  if (!files) return tl::unexpected(files.error());
  return (*files)->remove(key);
}

storage::Result<void> DataSetFiles::put_chunk(const std::string& name, std::span<const std::byte> bytes) {
  const auto files = store(MissingFolder::kMake);
  if (!files) return tl::unexpected(files.error());
  const auto free = storage::posix_file_system()->free_bytes(folder_);
  if (free && *free < kKeptFree + static_cast<int64_t>(bytes.size())) {
    return tl::unexpected(
        Error{Error::Code::kNoSpace,
              fmt::format(
                  "the disk of {} has {} MB free, and the service leaves {} MB to its database: free space there, remove data "
                  "sets with `holdfast data rm`, or give the service a larger --data_dir",
                  folder_, *free / 1'000'000, kKeptFree / 1'000'000)});
  }
  return (*files)->put(chunk_key(name), bytes);
}

storage::Result<storage::Bytes> DataSetFiles::get_chunk(const std::string& name) {
  const auto files = store(MissingFolder::kFail);
  if (!files) return tl::unexpected(files.error());
  auto bytes = (*files)->get(chunk_key(name));
  const std::string path = folder_ + "/" + chunk_key(name);
  if (bytes && sha256_hex(*bytes) != name) {
    bytes = tl::unexpected(
        Error{Error::Code::kCorrupt, fmt::format("{} is not what its name says: {} bytes with the SHA-256 {}. It is set aside; "
                                                 "`holdfast data push` of the same files repairs the data set",
                                                 path, bytes->size(), sha256_hex(*bytes))});
  }
  if (!bytes && bytes.error().code == Error::Code::kCorrupt) {
    std::error_code ignored;  // where it cannot be renamed, the next start counts it as there again
    fs::rename(path, path + kDamaged, ignored);
  }
  return bytes;
}

std::vector<std::string> DataSetFiles::remove_chunks(std::span<const std::string> names) {
  std::vector<std::string> removed;
  for (const std::string& name : names) {
    std::error_code failed;
    fs::remove(folder_ + "/" + chunk_key(name), failed);
    if (!failed) removed.push_back(name);
  }
  return removed;
}

storage::Result<void> DataSetFiles::put_set(const KeptDataSet& set) {
  const Json json = {
      {"digest", set.digest}, {"key", set.key}, {"pushed_ms", set.pushed_ms}, {"manifest", to_json(*set.manifest)}};
  return put(set_key(set.digest), bytes_of(json_text(json)));
}

storage::Result<void> DataSetFiles::put_name(const DataSetName& name) {
  return put(name_key(name.name), bytes_of(json_text({{"digest", name.digest}, {"named_ms", name.named_ms}})));
}

storage::Result<void> DataSetFiles::remove_set(const std::string& digest) {
  return remove(set_key(digest));
}

storage::Result<void> DataSetFiles::remove_name(const std::string& name) {
  return remove(name_key(name));
}

}  // namespace holdfast::rendezvous
