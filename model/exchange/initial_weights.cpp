#include "model/exchange/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "model/decode/source_values.h"
#include "model/exchange/checkpoint_config.h"
#include "model/exchange/hugging_face_model.h"
#include "storage/checkpoint.h"
#include "storage/checksum.h"
#include "storage/open_store.h"
#include "storage/places/place.h"

namespace holdfast::model {
namespace {

namespace fs = std::filesystem;
using Filled = tl::expected<void, std::string>;

// Reads whole tensors of the model that is there; the wanted one has as many rows of wpe or fewer, and all else alike. Where it
// alone has a head of its own, that begins as wte.
class WeightsOf : public InitialValues {
 public:
  WeightsOf(const Gpt2Config& there, const Gpt2Config& wanted) : there_(there), wanted_(wanted) {}
  Filled fill(size_t tensor, std::span<float> values) const final {
    if (tensor >= there_.entries.size()) tensor = there_.head;
    const auto whole = static_cast<size_t>(there_.entries[tensor].count);
    if (whole == values.size()) return read(there_.entries[tensor], tensor, values);
    std::vector<float> all(whole);
    auto filled = read(there_.entries[tensor], tensor, all);
    std::copy_n(all.begin(), values.size(), values.begin());
    return filled;
  }
  const ParameterTable& wanted() const { return wanted_; }

 private:
  virtual Filled read(const Parameter& parameter, size_t tensor, std::span<float> values) const = 0;
  ParameterTable there_, wanted_;
};

class WeightsOfHuggingFace final : public WeightsOf {
 public:
  WeightsOfHuggingFace(HuggingFaceModel there, const Gpt2Config& wanted)
      : WeightsOf(there.config(), wanted), model_(std::move(there)) {}

 private:
  Filled read(const Parameter&, size_t tensor, std::span<float> values) const override { return model_.read(tensor, values); }
  HuggingFaceModel model_;
};

constexpr size_t kTensorsAtOnceBytes = size_t{64} << 20;

// A shard is verified and unpacked as a whole, so tensors are read together with those that follow them.
class WeightsOfCheckpoint final : public WeightsOf {
 public:
  WeightsOfCheckpoint(std::unique_ptr<storage::ObjectStore> store, int64_t step, const Gpt2Config& there,
                      const Gpt2Config& wanted)
      : WeightsOf(there, wanted),
        store_(std::move(store)),
        values_({there,
                 [this, step](auto tensors) -> Filled {
                   const auto done = storage::read_tensors(*store_, step, tensors);
                   if (!done) return tl::unexpected(done.error().message);
                   return {};
                 }},
                kTensorsAtOnceBytes) {}

 private:
  Filled read(const Parameter&, size_t tensor, std::span<float> values) const override {
    const std::lock_guard lock(mutex_);
    return values_.fill(tensor, values);
  }

  const std::unique_ptr<storage::ObjectStore> store_;
  mutable std::mutex mutex_;  // guards what was read with the last tensor
  const SourceValues values_;
};

using Opened = tl::expected<std::unique_ptr<WeightsOf>, std::string>;

Filled check_sizes(const std::string& path, const Gpt2Config& there, const Gpt2Config& wanted) {
  std::string differences, flags;
  const auto compare = [&](const char* name, int64_t has, int64_t wants, bool is_good) {
    if (is_good) return;
    differences += fmt::format("{}{} {} and the job {}", differences.empty() ? "" : ", ", name, has, wants);
    flags += fmt::format(" --{} {}", name, has);
  };
  const auto same = [&](const char* name, int64_t has, int64_t wants) { compare(name, has, wants, has == wants); };
  same("n_layer", there.n_layer, wanted.n_layer);
  same("n_embd", there.n_embd, wanted.n_embd);
  same("n_head", there.n_head, wanted.n_head);
  same("vocab_size", there.vocab_size, wanted.vocab_size);
  compare("block_size", there.block_size, wanted.block_size, there.block_size >= wanted.block_size);
  if (!there.ties_head && wanted.ties_head) {
    differences +=
        fmt::format("{}a head of its own and the job one that is tied to the embedding", differences.empty() ? "" : ", ");
    flags += " --tied_head off";
  }
  if (differences.empty()) return {};
  return tl::unexpected(fmt::format("{}: this model has {}. Submit with{}.", path, differences, flags));
}

Opened open_hugging_face(const std::string& path, const Gpt2Config& wanted) {
  auto there = HuggingFaceModel::open(path);
  if (!there) return tl::unexpected(there.error());
  if (auto good = check_sizes(path, there->config(), wanted); !good) return tl::unexpected(good.error());
  return std::make_unique<WeightsOfHuggingFace>(*std::move(there), wanted);
}

// Several tensors lie in one shard, and some of them are asked for by themselves, with the manifest: the manifest is kept, and
// the shard that was read last.
class LastShardKept final : public storage::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  storage::Result<storage::Bytes> get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    Kept& kept = key.ends_with("manifest.json") ? manifest_ : shard_;
    if (key == kept.key) return kept.bytes;
    auto read = ForwardingStore::get(key);
    if (read) kept = {key, *read};
    return read;
  }

 private:
  struct Kept {
    std::string key;
    storage::Bytes bytes;
  };
  std::mutex mutex_;
  Kept manifest_, shard_;
};

// The checkpoint of a model: its store and step. No store: the path is another's, and not of checkpoints.
struct Place {
  std::unique_ptr<storage::ObjectStore> store;
  int64_t step = -1;
};

tl::expected<Place, std::string> place_in(std::unique_ptr<storage::ObjectStore> store, int64_t step, const std::string& path) {
  const auto steps = storage::list_checkpoints(*store);
  if (!steps) return tl::unexpected(steps.error().message);
  if (step < 0 && steps->empty()) return tl::unexpected(fmt::format("{}: has no checkpoint.", path));
  if (step < 0) step = steps->back();
  if (std::ranges::find(*steps, step) == steps->end()) {
    return tl::unexpected(fmt::format("{}: has no checkpoint of step {}{}.", path, step,
                                      steps->empty() ? "" : fmt::format("; its newest is that of step {}", steps->back())));
  }
  return Place{std::move(store), step};
}

// Folders with checkpoints in them are Holdfast's; all else is another's.
tl::expected<Place, std::string> place_of(const std::string& path, int64_t step) {
  if (storage::is_s3(path)) {
    const auto [named, named_step] = storage::split_step(path, true);
    auto store = storage::open_store(named, "", {.missing = storage::MissingFolder::kFail});
    if (!store) return tl::unexpected(store.error().message);
    return place_in(std::make_unique<LastShardKept>(*std::move(store)), step < 0 ? named_step.value_or(-1) : step, path);
  }
  std::error_code error;
  if (!fs::exists(path, error)) {
    return tl::unexpected(
        fmt::format("{}: no such file or folder, expected the weights to start with: a folder with config.json and "
                    "model.safetensors, or one "
                    "with checkpoints.",
                    path));
  }
  if (!fs::is_directory(path, error)) return Place{};
  auto store = storage::open_directory_store(path);
  if (!store) return tl::unexpected(store.error().message);
  const auto steps = storage::list_checkpoints(**store);
  if (steps && step < 0 && steps->empty()) return Place{};
  return place_in(*std::move(store), step, path);
}

tl::expected<Gpt2Config, std::string> config_in(const Place& place, const std::string& path) {
  const auto manifest = storage::read_manifest(*place.store, place.step);
  if (!manifest) return tl::unexpected(manifest.error().message);
  const Gpt2Config there = config_of(*manifest);
  if (const auto problems = there.problems(); !problems.empty()) {
    return tl::unexpected(fmt::format("{}: the checkpoint of step {} does not say of which model it is ({}).", path, place.step,
                                      problems.front()));
  }
  return there;
}

Opened open_checkpoint(Place place, const std::string& path, const Gpt2Config& wanted) {
  const auto there = config_in(place, path);
  if (!there) return tl::unexpected(there.error());
  if (auto good = check_sizes(path, *there, wanted); !good) return tl::unexpected(good.error());
  return std::make_unique<WeightsOfCheckpoint>(std::move(place.store), place.step, *there, wanted);
}

tl::expected<std::string, std::string> digest_of(const WeightsOf& weights) {
  storage::RunningChecksum digest;
  for (size_t i = 0; i < weights.wanted().entries.size(); ++i) {
    std::vector<float> values(static_cast<size_t>(weights.wanted().entries[i].count));
    if (auto filled = weights.fill(i, values); !filled) return tl::unexpected(filled.error());
    digest.add(std::as_bytes(std::span(values)));
  }
  return digest.hex();
}

// Which files are there, how large and how old.
std::string files_at(const std::string& path) {
  std::string print;
  std::error_code error;
  std::vector<fs::path> files;
  const fs::path folder = fs::is_directory(path, error) ? fs::path(path) : fs::path(path).parent_path();
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error))
    files.push_back(at->path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    print += fmt::format("|{} {} {}", file.string(), fs::file_size(file, error),
                         fs::last_write_time(file, error).time_since_epoch().count());
  }
  return print;
}

}  // namespace

tl::expected<Gpt2Config, std::string> config_of_weights(const std::string& path, int64_t step) {
  const auto place = place_of(path, step);
  if (!place) return tl::unexpected(place.error());
  if (place->store) return config_in(*place, path);
  const auto model = HuggingFaceModel::open(path);
  if (!model) return tl::unexpected(model.error());
  return model->config();
}

// A digest is remembered by the files that were there before they were opened, if they still are when all is read.
tl::expected<InitialWeights, std::string> open_initial_weights(const std::string& path, int64_t step,
                                                               const Gpt2Config& wanted) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  const std::string files = files_at(path);
  auto place = place_of(path, step);
  if (!place) return tl::unexpected(place.error());
  const std::string print = fmt::format("{}@{}:{} {}{}", path, place->step, wanted.block_size, wanted.ties_head, files);
  auto opened = place->store ? open_checkpoint(*std::move(place), path, wanted) : open_hugging_face(path, wanted);
  if (!opened) return tl::unexpected(opened.error());
  if (const auto found = known.find(print); found != known.end() && files_at(path) == files) {
    return InitialWeights{*std::move(opened), found->second};
  }
  auto digest = digest_of(**opened);
  if (!digest) return tl::unexpected(digest.error());
  if (files_at(path) == files) known[print] = *digest;
  return InitialWeights{*std::move(opened), *std::move(digest)};
}

tl::expected<InitialWeights, std::string> open_initial_weights(std::unique_ptr<storage::ObjectStore> store, int64_t step,
                                                               const std::string& named, const Gpt2Config& wanted) {
  store = std::make_unique<LastShardKept>(std::move(store));
  auto place = place_in(std::move(store), step, named);
  if (!place) return tl::unexpected(place.error());
  auto opened = open_checkpoint(*std::move(place), named, wanted);
  if (!opened) return tl::unexpected(opened.error());
  auto digest = digest_of(**opened);
  if (!digest) return tl::unexpected(digest.error());
  return InitialWeights{*std::move(opened), *std::move(digest)};
}

}  // namespace holdfast::model
