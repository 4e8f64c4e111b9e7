#include "model/exchange/hugging_face_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "kernels/dtype.h"
#include "model/exchange/hugging_face.h"
#include "model/exchange/strict_json.h"

namespace holdfast::model {

namespace {

namespace fs = std::filesystem;
using Outcome = tl::expected<void, std::string>;

constexpr int64_t kConfigBytesMax = 1 << 20, kIndexBytesMax = 16 << 20;
constexpr size_t kFilesMax = 1024, kNamesShown = 3;
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

std::string listed(const std::vector<std::string>& names) {
  const size_t count = std::min(names.size(), kNamesShown);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", "),
                     names.size() > count ? fmt::format(" and {} more", names.size() - count) : "");
}

// A name in the weight map is a file beside it, and nothing else.
bool is_plain(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos && name != "." &&
         name != "..";
}

// Which tensors each file of a sharded set has, by the index.
tl::expected<std::map<std::string, std::set<std::string>>, std::string> shards_of(const std::string& index) {
  const auto parsed = read_strict_json(index, kIndexBytesMax);
  if (!parsed) return tl::unexpected(parsed.error());
  if (!parsed->is_object() || !parsed->contains("weight_map") || !(*parsed)["weight_map"].is_object())
    return tl::unexpected(index + ": has no weight_map, expected an object of tensors and their files");
  std::map<std::string, std::set<std::string>> shards;
  for (const auto& [tensor, file] : (*parsed)["weight_map"].items()) {
    if (!file.is_string() || !is_plain(file.get<std::string>()))
      return tl::unexpected(
          fmt::format("{}: {} is in {}, expected the name of a file beside this one", index, tensor, file.dump()));
    shards[file.get<std::string>()].insert(tensor);
    if (shards.size() > kFilesMax) return tl::unexpected(fmt::format("{}: names more than {} files", index, kFilesMax));
  }
  return shards;
}

Outcome check_shard(const SafetensorsFile& file, const std::set<std::string>& expected, const std::string& index) {
  std::set<std::string> there;
  for (const StoredTensor& tensor : file.tensors()) there.insert(tensor.name);
  std::vector<std::string> apart;
  std::ranges::set_symmetric_difference(expected, there, std::back_inserter(apart));
  if (apart.empty()) return {};
  return tl::unexpected(fmt::format("{}: its tensors are not those that {} says of it: {}", file.path(),
                                    fs::path(index).filename().string(), listed(apart)));
}

tl::expected<std::vector<SafetensorsFile>, std::string> open_files(const fs::path& weights) {
  std::vector<SafetensorsFile> files;
  std::map<std::string, std::set<std::string>> shards;
  const bool is_sharded = weights.extension() == ".json";
  if (is_sharded) {
    auto found = shards_of(weights.string());
    if (!found) return tl::unexpected(found.error());
    shards = *std::move(found);
  } else {
    shards[weights.filename().string()] = {};
  }
  for (const auto& [name, tensors] : shards) {
    auto file = SafetensorsFile::open((weights.parent_path() / name).string());
    if (!file) return tl::unexpected(file.error());
    if (const Outcome good = is_sharded ? check_shard(*file, tensors, weights.string()) : Outcome(); !good)
      return tl::unexpected(good.error());
    files.push_back(*std::move(file));
  }
  return files;
}

// The file that says where the weights are.
tl::expected<fs::path, std::string> weights_at(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return fs::path(path);
  for (const char* name : {kWeights, kIndex}) {
    if (fs::exists(fs::path(path) / name, ignored)) return fs::path(path) / name;
  }
  return tl::unexpected(fmt::format("{}: has neither {} nor {}", path, kWeights, kIndex));
}

std::string without_prefix(const std::string& name) {
  return name.starts_with(kHuggingFacePrefix) ? name.substr(std::string_view(kHuggingFacePrefix).size()) : name;
}

bool is_mask(const std::string& name) {
  return name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

int64_t width_of(const std::string& dtype) {
  return dtype == "F32" ? 4 : dtype == "F16" || dtype == "BF16" ? 2 : 0;
}

// Rows of a tensor in the file: `count` from `first` on, of `columns` elements each.
struct Rows {
  int64_t first, count, columns;
  const std::byte* bytes;
};

// Into `values`, which are (columns, all rows) where the table has the matrix the other way round.
template <typename Element>
void widen(const Rows& rows, bool is_transposed, std::span<float> values) {
  const int64_t all_rows = static_cast<int64_t>(values.size()) / rows.columns;
  for (int64_t column = 0; column < rows.columns; ++column) {
    for (int64_t row = 0; row < rows.count; ++row) {
      Element element;
      std::memcpy(&element, rows.bytes + (row * rows.columns + column) * static_cast<int64_t>(sizeof element), sizeof element);
      const int64_t place = is_transposed ? column * all_rows + rows.first + row : (rows.first + row) * rows.columns + column;
      values[static_cast<size_t>(place)] = element;
    }
  }
}

void widen(const std::string& dtype, const Rows& rows, bool is_transposed, std::span<float> values) {
  if (dtype == "F32") return widen<float>(rows, is_transposed, values);
  if (dtype == "F16") return widen<kernels::Float16>(rows, is_transposed, values);
  return widen<kernels::BFloat16>(rows, is_transposed, values);
}

std::vector<int64_t> shape_in_file(const Parameter& parameter) {
  std::vector<int64_t> shape = parameter.shape;
  if (hugging_face_layout(parameter) == Layout::kInOut) std::swap(shape[0], shape[1]);
  return shape;
}

std::string misfit(const StoredTensor& tensor, const Parameter& parameter) {
  const std::vector<int64_t> expected = shape_in_file(parameter);
  if (tensor.shape != expected)
    return fmt::format("{} is ({}), config.json says ({})", tensor.name, fmt::join(tensor.shape, ", "),
                       fmt::join(expected, ", "));
  if (width_of(tensor.dtype) == 0) return fmt::format("{} is of type {}, expected F32, F16 or BF16", tensor.name, tensor.dtype);
  return "";
}

}  // namespace

HuggingFaceModel::HuggingFaceModel(const Gpt2Config& config, std::vector<SafetensorsFile> files)
    : config_(config), table_(config), files_(std::move(files)) {}

tl::expected<HuggingFaceModel, std::string> HuggingFaceModel::open(const std::string& path) {
  const auto weights = weights_at(path);
  if (!weights) return tl::unexpected(weights.error());
  const std::string about = (weights->parent_path() / "config.json").string();
  const auto parsed = read_strict_json(about, kConfigBytesMax);
  if (!parsed) return tl::unexpected(parsed.error() + " (it has the model's sizes, which the weights do not tell)");
  const auto config = parse_hugging_face_config(*parsed);
  if (!config) return tl::unexpected(about + ": " + config.error());
  auto files = open_files(*weights);
  if (!files) return tl::unexpected(files.error());
  HuggingFaceModel model(*config, *std::move(files));
  if (const Outcome found = model.find_all(weights->string()); !found) return tl::unexpected(found.error());
  return model;
}

Outcome HuggingFaceModel::find_all(const std::string& origin) {
  std::map<std::string, size_t> wanted;
  for (size_t i = 0; i < table_.entries.size(); ++i) wanted[table_.entries[i].name] = i;
  sources_.assign(table_.entries.size(), {});
  Source head;
  std::vector<std::string> left_over, missing;
  for (size_t file = 0; file < files_.size(); ++file) {
    for (const StoredTensor& tensor : files_[file].tensors()) {
      const std::string name = without_prefix(tensor.name);
      const auto found = wanted.find(name);
      if (found != wanted.end()) {
        if (sources_[found->second].tensor) return tl::unexpected(fmt::format("{}: has {} twice", origin, name));
        if (const std::string problem = misfit(tensor, table_.entries[found->second]); !problem.empty())
          return tl::unexpected(files_[file].path() + ": " + problem);
        sources_[found->second] = {file, &tensor};
      } else if (tensor.name == kHeadName) {
        head = {file, &tensor};
      } else if (!is_mask(name)) {
        left_over.push_back(tensor.name);
      }
    }
  }
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (!sources_[i].tensor) missing.push_back(table_.entries[i].name);
  }
  if (!missing.empty()) return tl::unexpected(fmt::format("{}: lacks {}", origin, listed(missing)));
  if (!left_over.empty())
    return tl::unexpected(fmt::format("{}: has {}, which a GPT-2 of these sizes has not", origin, listed(left_over)));
  return head.tensor ? check_head(head) : Outcome();
}

// A head of its own would be lost.
Outcome HuggingFaceModel::check_head(const Source& head) const {
  const Source& tied = sources_.front();
  const std::string problem =
      fmt::format("{}: {} is not the same as wte.weight, to which config.json says that it is tied (tie_word_embeddings)",
                  files_[head.file].path(), kHeadName);
  if (head.tensor->dtype != tied.tensor->dtype || head.tensor->shape != tied.tensor->shape) return tl::unexpected(problem);
  std::vector<std::byte> one(kPieceBytes), other(kPieceBytes);
  for (int64_t at = 0; at < head.tensor->bytes; at += static_cast<int64_t>(kPieceBytes)) {
    const auto count = static_cast<size_t>(std::min<int64_t>(head.tensor->bytes - at, kPieceBytes));
    const auto read = files_[head.file].read(*head.tensor, at, std::span(one).first(count)).and_then([&] {
      return files_[tied.file].read(*tied.tensor, at, std::span(other).first(count));
    });
    if (!read) return read;
    if (!std::equal(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(count), other.begin()))
      return tl::unexpected(problem);
  }
  return {};
}

Outcome HuggingFaceModel::read(size_t tensor, std::span<float> values) const {
  const Source& source = sources_[tensor];
  const bool is_transposed = hugging_face_layout(table_.entries[tensor]) == Layout::kInOut;
  const int64_t width = width_of(source.tensor->dtype), columns = source.tensor->shape.back();
  const int64_t rows = static_cast<int64_t>(values.size()) / columns;
  const int64_t rows_max = std::clamp<int64_t>(static_cast<int64_t>(kPieceBytes) / (width * columns), 1, rows);
  std::vector<std::byte> piece(static_cast<size_t>(rows_max * columns * width));
  for (int64_t first = 0; first < rows; first += rows_max) {
    const int64_t here = std::min(rows_max, rows - first);
    const auto part = std::span(piece).first(static_cast<size_t>(here * columns * width));
    if (const Outcome done = files_[source.file].read(*source.tensor, first * columns * width, part); !done) return done;
    widen(source.tensor->dtype, {first, here, columns, piece.data()}, is_transposed, values);
  }
  return {};
}

}  // namespace holdfast::model
