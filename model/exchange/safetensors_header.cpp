#include "model/exchange/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace holdfast::model {

namespace {

using nlohmann::json;

constexpr std::pair<std::string_view, int64_t> kWidths[] = {
    {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},  {"I32", 4},     {"I16", 2},     {"I8", 1},
    {"U64", 8}, {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
};

// A name as an error shows it: short, and printable whatever is in it.
std::string shown(const std::string& name) {
  constexpr size_t kShown = 80;
  const std::string text = json(name.substr(0, kShown)).dump(-1, ' ', true, json::error_handler_t::replace);
  return name.size() > kShown ? text + "…" : text;
}

// Receives the header's parts as they are read, and stops the reading at the first that is wrong.
class HeaderEvents final : public json::json_sax_t {
 public:
  std::vector<StoredTensor> tensors;
  std::string problem;  // empty: none

  bool start_object(size_t) override {
    if (place_ == Place::kBefore) return enter(Place::kTop);
    if (place_ == Place::kTop) return enter(is_metadata_ ? Place::kMetadata : Place::kEntry);
    return refuse_value("an object");
  }
  bool end_object() override {
    if (place_ == Place::kTop) return enter(Place::kAfter);
    if (place_ == Place::kEntry && seen_.size() < 3) return refuse("has no {}", missing_field());
    return enter(Place::kTop);
  }
  bool start_array(size_t) override {
    if (place_ == Place::kEntry && field_ == "shape") return enter(Place::kShape);
    if (place_ == Place::kEntry && field_ == "data_offsets") return enter(Place::kOffsets);
    return refuse_value("an array");
  }
  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_.size() != 2)
      return refuse("has data_offsets of {} numbers, expected 2", offsets_.size());
    if (place_ == Place::kOffsets) {
      tensors.back().begin = offsets_[0];
      tensors.back().bytes = offsets_[1] - offsets_[0];
      if (tensors.back().bytes < 0) return refuse("begins at {} and ends at {}", offsets_[0], offsets_[1]);
    }
    return enter(Place::kEntry);
  }
  bool key(std::string& name) override {
    if (place_ == Place::kTop) return begin_entry(name);
    if (place_ == Place::kMetadata) return true;
    if (name != "dtype" && name != "shape" && name != "data_offsets") return refuse("has a field {}", shown(name));
    field_ = name;
    return seen_.insert(name).second || refuse("has {} twice", name);
  }
  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kEntry || field_ != "dtype") return refuse_value("a text");
    tensors.back().dtype = value;
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return refuse_value("a number");
    if (value > INT64_MAX) return refuse("has {} in {}, which is too large", value, field_);
    std::vector<int64_t>& numbers = place_ == Place::kShape ? tensors.back().shape : offsets_;
    if (numbers.size() >= kTensorDimensionsMax) return refuse("has more than {} numbers in {}", kTensorDimensionsMax, field_);
    numbers.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool number_integer(int64_t value) override { return refuse_value(fmt::format("{}", value)); }
  bool number_float(double, const std::string& value) override { return refuse_value(shown(value)); }
  bool boolean(bool) override { return refuse_value("a truth value"); }
  bool null() override { return refuse_value("null"); }
  bool binary(json::binary_t&) override { return refuse_value("bytes"); }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    problem = fmt::format("its header is not JSON, at byte {} of it", position);
    return false;
  }

 private:
  enum class Place : uint8_t { kBefore, kTop, kMetadata, kEntry, kShape, kOffsets, kAfter };

  bool enter(Place place) {
    place_ = place;
    return true;
  }
  bool begin_entry(const std::string& name) {
    is_metadata_ = name == "__metadata__";
    entry_ = name;
    seen_.clear();
    offsets_.clear();
    field_.clear();
    if (!names_.insert(name).second) return refuse("is there twice");
    if (is_metadata_) return true;
    if (tensors.size() >= kHeaderTensorsMax) {
      problem = fmt::format("it has more than {} tensors", kHeaderTensorsMax);
      return false;
    }
    tensors.push_back({name, "", {}, 0, 0});
    return true;
  }
  const char* missing_field() const {
    for (const char* field : {"dtype", "shape"}) {
      if (!seen_.contains(field)) return field;
    }
    return "data_offsets";
  }
  bool refuse_value(const std::string& value) {
    if (place_ != Place::kBefore) return refuse("has {} where none belongs", value);
    problem = fmt::format("its header is {}, expected an object", value);
    return false;
  }
  template <typename... Arguments>
  bool refuse(fmt::format_string<Arguments...> what, Arguments&&... arguments) {
    problem = fmt::format("{} {}", shown(entry_), fmt::format(what, std::forward<Arguments>(arguments)...));
    return false;
  }

  Place place_ = Place::kBefore;
  bool is_metadata_ = false;
  std::string entry_, field_;  // under way
  std::unordered_set<std::string> names_, seen_;
  std::vector<int64_t> offsets_;
};

// The bytes that shape and type take; below 0: more than can be counted.
int64_t bytes_of(const StoredTensor& tensor, int64_t width) {
  int64_t bytes = width;
  for (const int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

std::string size_problem(const StoredTensor& tensor) {
  const auto width = std::ranges::find(kWidths, tensor.dtype, &std::pair<std::string_view, int64_t>::first);
  if (width == std::end(kWidths)) return fmt::format("{} is of an unknown type {}", shown(tensor.name), shown(tensor.dtype));
  const int64_t expected = bytes_of(tensor, width->second);
  if (expected == tensor.bytes) return "";
  return fmt::format("{} has {} bytes, its shape ({}) of {} takes {}", shown(tensor.name), tensor.bytes,
                     fmt::join(tensor.shape, ", "), tensor.dtype,
                     expected < 0 ? std::string("more than can be counted") : fmt::format("{}", expected));
}

// `tensors`: ascending by their beginnings.
std::string placing_problem(const std::vector<StoredTensor>& tensors, int64_t data_bytes) {
  int64_t end = 0;
  const StoredTensor* before = nullptr;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin > data_bytes || tensor.bytes > data_bytes - tensor.begin) {
      return fmt::format(
          "{} lies at bytes {} to {} of the data, of which the file has {}: it was cut short, or is no such file",
          shown(tensor.name), tensor.begin, tensor.begin + tensor.bytes, data_bytes);
    }
    if (tensor.begin < end)
      return fmt::format("{} begins at byte {} of the data, where {} lies, which ends at {}", shown(tensor.name), tensor.begin,
                         shown(before->name), end);
    if (tensor.begin > end)
      return fmt::format("bytes {} to {} of the data belong to no tensor, before {}", end, tensor.begin, shown(tensor.name));
    end = tensor.begin + tensor.bytes;
    before = &tensor;
  }
  return end == data_bytes ? "" : fmt::format("bytes {} to {} of the data, its end, belong to no tensor", end, data_bytes);
}

}  // namespace

tl::expected<std::vector<StoredTensor>, std::string> parse_safetensors_header(std::string_view text, int64_t data_bytes) {
  HeaderEvents events;
  const bool is_read = json::sax_parse(text.begin(), text.end(), &events);
  if (!is_read) return tl::unexpected(events.problem);
  std::vector<StoredTensor>& tensors = events.tensors;
  for (const StoredTensor& tensor : tensors) {
    if (const std::string problem = size_problem(tensor); !problem.empty()) return tl::unexpected(problem);
  }
  std::ranges::sort(tensors, [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.bytes, a.name) < std::tie(b.begin, b.bytes, b.name);
  });
  if (const std::string problem = placing_problem(tensors, data_bytes); !problem.empty()) return tl::unexpected(problem);
  return std::move(tensors);
}

}  // namespace holdfast::model
