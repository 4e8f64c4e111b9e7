#include "model/parameter_table.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

namespace holdfast::model {

namespace {

constexpr size_t kEncoderTensors = 2, kLayerTensors = 12, kFinalTensors = 2;
constexpr size_t kLayerMlp = 6,
                 kLayerMlpProjection = 10;  // of a layer: the tensor of ln_2, and of mlp.c_proj, that comes first

// Far above any GPT-2, and low enough that no product of them leaves int64.
constexpr int64_t kLargest = 1 << 20;

class TableBuilder {
 public:
  explicit TableBuilder(ParameterTable& table) : table_(table) {}

  void matrix(std::string name, int64_t rows, int64_t columns) { add(std::move(name), {rows, columns}, rows * columns); }
  void vector(std::string name, int64_t count) { add(std::move(name), {count}, count); }
  void layernorm(const std::string& name, int64_t channels) {
    vector(name + ".weight", channels);
    vector(name + ".bias", channels);
  }
  void linear(const std::string& name, int64_t out, int64_t in) {
    matrix(name + ".weight", out, in);
    vector(name + ".bias", out);
  }

 private:
  void add(std::string name, std::vector<int64_t> shape, int64_t count) {
    const bool decay = shape.size() == 2;
    table_.entries.push_back({std::move(name), std::move(shape), table_.total, count, decay});
    table_.total += count;
  }
  ParameterTable& table_;
};

}  // namespace

std::vector<std::string> Gpt2Config::problems() const {
  std::vector<std::string> found;
  const auto check_range = [&found](const char* field, int64_t value, int64_t largest) {
    if (value < 1 || value > largest) {
      found.push_back(std::string(field) + ": " + std::to_string(value) + ", expected 1 to " + std::to_string(largest));
    }
  };
  check_range("n_layer", n_layer, 1024);
  check_range("n_embd", n_embd, kLargest);
  check_range("n_head", n_head, kLargest);
  check_range("vocab_size", vocab_size, 65536);  // token files hold uint16
  check_range("block_size", block_size, kLargest);
  if (n_embd >= 1 && n_head >= 1 && n_embd % n_head != 0) {
    found.push_back("n_head: " + std::to_string(n_head) + " does not divide n_embd " + std::to_string(n_embd) +
                    ", so the heads would not be equally wide");
  }
  return found;
}

ParameterTable::ParameterTable(const Gpt2Config& config) {
  const int64_t C = config.n_embd;
  TableBuilder build(*this);
  build.matrix("wte.weight", config.vocab_size, C);
  build.matrix("wpe.weight", config.block_size, C);
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    const std::string prefix = "h." + std::to_string(layer);
    build.layernorm(prefix + ".ln_1", C);
    build.linear(prefix + ".attn.c_attn", 3 * C, C);
    build.linear(prefix + ".attn.c_proj", C, C);
    build.layernorm(prefix + ".ln_2", C);
    build.linear(prefix + ".mlp.c_fc", 4 * C, C);
    build.linear(prefix + ".mlp.c_proj", C, 4 * C);
  }
  build.layernorm("ln_f", C);
  if (config.ties_head) return;
  head = entries.size();
  build.matrix(kHeadName, config.vocab_size, C);
}

const Parameter& ParameterTable::operator[](std::string_view name) const {
  const auto found = std::ranges::find(entries, name, &Parameter::name);
  assert(found != entries.end());
  return *found;
}

int64_t ParameterTable::layer_of(size_t tensor) const {
  const size_t layers_end = (ties_head() ? entries.size() : head) - kFinalTensors;
  const bool outside = tensor < kEncoderTensors || tensor >= layers_end;
  return outside ? -1 : static_cast<int64_t>((tensor - kEncoderTensors) / kLayerTensors);
}

std::vector<Elements> ParameterTable::backward_order() const {
  std::vector<Elements> order = {elements_of(head)};
  size_t end = ties_head() ? entries.size() : head;
  const auto take = [&](size_t tensors) {
    const Parameter& last = entries[end - 1];
    end -= tensors;
    order.push_back({entries[end].offset, last.offset + last.count - entries[end].offset});
  };
  take(kFinalTensors);
  while (end > kEncoderTensors) take(kLayerTensors);
  order.push_back(elements_of(1));
  if (!ties_head()) order.push_back(elements_of(0));
  return order;
}

std::vector<Elements> ParameterTable::backward_parts(int64_t head_rows) const {
  std::vector<Elements> parts, whole = backward_order();
  const auto between = std::span(whole).subspan(1, whole.size() - (ties_head() ? 1 : 2));  // the head and a wte of its own
  for (const Elements& range : between) {
    const auto tensors = cut(range);
    int64_t end = range.first + range.count;
    if (layer_of(tensors.front().tensor) >= 0) {
      for (const size_t first : {kLayerMlpProjection, kLayerMlp}) {
        const int64_t begin = tensors[first].elements.first;
        parts.push_back({begin, std::exchange(end, begin) - begin});
      }
    }
    parts.push_back({range.first, end - range.first});
  }
  const int64_t largest = std::ranges::max(parts, {}, &Elements::count).count, width = entries.front().shape[1];
  const auto add_by_rows = [&](Elements matrix, int64_t rows) {
    const int64_t count = std::max<int64_t>(largest / (rows * width), 1) * rows * width;
    for (int64_t at = 0; at < matrix.count; at += count)
      parts.push_back({matrix.first + at, std::min(count, matrix.count - at)});
  };
  if (!ties_head()) add_by_rows(elements_of(0), 1);
  if (head_rows > 0) {
    add_by_rows(elements_of(head), head_rows);
  } else {
    parts.insert(parts.begin(), elements_of(head));
  }
  return parts;
}

std::vector<TensorPart> ParameterTable::cut(Elements range) const {
  std::vector<TensorPart> parts;
  const int64_t range_end = range.first + range.count;
  auto entry = std::ranges::upper_bound(entries, range.first, {}, &Parameter::offset) - 1;
  for (int64_t at = range.first; at < range_end; ++entry) {
    const int64_t end = std::min(entry->offset + entry->count, range_end);
    parts.push_back({static_cast<size_t>(entry - entries.begin()), {at, end - at}});
    at = end;
  }
  return parts;
}

std::vector<Elements> ParameterTable::chunks() const {
  std::vector<Elements> all;
  for (const Parameter& parameter : entries) {
    for (int64_t at = 0; at < parameter.count; at += kChunkElements)
      all.push_back({parameter.offset + at, std::min(kChunkElements, parameter.count - at)});
  }
  return all;
}

}  // namespace holdfast::model
