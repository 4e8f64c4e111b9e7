#include "model/exchange/gguf.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace holdfast::model {

namespace {

constexpr uint32_t kVersion = 3;
constexpr int64_t kAlignment = 32;  // of tensors, from the beginning of the data

enum ValueType : uint32_t { kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9 };

// Our name of a layer's part, and llama.cpp's.
constexpr std::pair<std::string_view, std::string_view> kParts[] = {
    {"ln_1.", "attn_norm."}, {"attn.c_attn.", "attn_qkv."}, {"attn.c_proj.", "attn_output."},
    {"ln_2.", "ffn_norm."},  {"mlp.c_fc.", "ffn_up."},      {"mlp.c_proj.", "ffn_down."},
};

std::string name_in_gguf(std::string_view name) {
  if (name == "wte.weight") return "token_embd.weight";
  if (name == "wpe.weight") return "position_embd.weight";
  if (name == kHeadName) return "output.weight";
  if (name.starts_with("ln_f.")) return "output_norm." + std::string(name.substr(5));
  const size_t dot = name.find('.', 2);  // "h.11.attn.c_attn.weight"
  const std::string_view layer = name.substr(2, dot - 2), rest = name.substr(dot + 1);
  for (const auto& [ours, theirs] : kParts) {
    if (rest.starts_with(ours)) return fmt::format("blk.{}.{}{}", layer, theirs, rest.substr(ours.size()));
  }
  return std::string(name);
}

int64_t padded(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class Bytes {
 public:
  template <typename Number>
  void number(Number value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void string(std::string_view text) {
    number<uint64_t>(text.size());
    text_ += text;
  }
  void pad() { text_.resize(static_cast<size_t>(padded(static_cast<int64_t>(text_.size())))); }
  std::string& text() { return text_; }

 private:
  std::string text_;
};

// Keys with their values, counted.
class Metadata {
 public:
  void add(std::string_view key, uint32_t value) {
    begin(key, kUint32);
    bytes_.number(value);
  }
  void add(std::string_view key, float value) {
    begin(key, kFloat32);
    bytes_.number(value);
  }
  void add(std::string_view key, bool value) {
    begin(key, kBool);
    bytes_.number<uint8_t>(value ? 1 : 0);
  }
  void add(std::string_view key, const std::string& value) {
    begin(key, kString);
    bytes_.string(value);
  }
  void add(std::string_view key, const char* value) { add(key, std::string(value)); }
  void add(std::string_view key, const std::vector<std::string>& values) {
    begin_array(key, kString, values.size());
    for (const std::string& value : values) bytes_.string(value);
  }
  void add(std::string_view key, const std::vector<float>& values) {
    begin_array(key, kFloat32, values.size());
    for (const float value : values) bytes_.number(value);
  }
  void add(std::string_view key, const std::vector<int32_t>& values) {
    begin_array(key, kInt32, values.size());
    for (const int32_t value : values) bytes_.number(value);
  }
  void add_id(std::string_view key, int32_t id) {
    if (id >= 0) add(key, static_cast<uint32_t>(id));
  }

  uint64_t count() const { return count_; }
  const std::string& text() { return bytes_.text(); }

 private:
  void begin(std::string_view key, ValueType type) {
    ++count_;
    bytes_.string(key);
    bytes_.number<uint32_t>(type);
  }
  void begin_array(std::string_view key, ValueType type, size_t size) {
    begin(key, kArray);
    bytes_.number<uint32_t>(type);
    bytes_.number<uint64_t>(size);
  }

  uint64_t count_ = 0;
  Bytes bytes_;
};

// llama.cpp's numbers for the type of a tensor, and for that of most of a file.
uint32_t tensor_type(kernels::DType dtype) {
  return dtype == kernels::DType::kFloat32 ? 0 : dtype == kernels::DType::kFloat16 ? 1 : 30;
}
uint32_t file_type(kernels::DType dtype) {
  return dtype == kernels::DType::kFloat32 ? 0 : dtype == kernels::DType::kFloat16 ? 1 : 32;
}

void add_tokenizer(Metadata& metadata, const GgufTokenizer& tokenizer) {
  metadata.add("tokenizer.ggml.model", tokenizer.model);
  if (!tokenizer.pre.empty()) metadata.add("tokenizer.ggml.pre", tokenizer.pre);
  metadata.add("tokenizer.ggml.tokens", tokenizer.tokens);
  if (!tokenizer.scores.empty()) metadata.add("tokenizer.ggml.scores", tokenizer.scores);
  metadata.add("tokenizer.ggml.token_type", tokenizer.types);
  if (tokenizer.has_merges) metadata.add("tokenizer.ggml.merges", tokenizer.merges);
  // llama.cpp puts other ids where these are missing, and a text begins with none.
  metadata.add_id("tokenizer.ggml.bos_token_id", tokenizer.end_of_document);
  metadata.add_id("tokenizer.ggml.eos_token_id", tokenizer.end_of_document);
  metadata.add_id("tokenizer.ggml.unknown_token_id", tokenizer.unknown);
  metadata.add("tokenizer.ggml.add_bos_token", false);
  metadata.add("tokenizer.ggml.add_eos_token", false);
  metadata.add("tokenizer.ggml.add_space_prefix", false);
  metadata.add("tokenizer.ggml.remove_extra_whitespaces", false);
}

Metadata metadata_of(const Gpt2Config& config, const GgufDescription& description) {
  const auto size = [](int64_t value) { return static_cast<uint32_t>(value); };
  Metadata metadata;
  metadata.add("general.architecture", "gpt2");
  metadata.add("general.type", "model");
  metadata.add("general.name", description.name);
  metadata.add("gpt2.block_count", size(config.n_layer));
  metadata.add("gpt2.context_length", size(config.block_size));
  metadata.add("gpt2.embedding_length", size(config.n_embd));
  metadata.add("gpt2.feed_forward_length", size(4 * config.n_embd));
  metadata.add("gpt2.attention.head_count", size(config.n_head));
  metadata.add("gpt2.attention.layer_norm_epsilon", 1e-5F);
  metadata.add("gpt2.vocab_size", size(config.vocab_size));
  metadata.add("general.file_type", file_type(description.dtype));
  add_tokenizer(metadata, description.tokenizer);
  metadata.add("general.quantization_version", uint32_t{2});
  return metadata;
}

}  // namespace

std::vector<FileTensor> gguf_tensors(const Gpt2Config& config, kernels::DType dtype) {
  const ParameterTable table(config);
  std::vector<FileTensor> tensors;
  for (size_t i = 0; i < table.entries.size(); ++i) {
    const Parameter& parameter = table.entries[i];
    const bool is_narrow = parameter.shape.size() == 2 && parameter.name != "wpe.weight";
    tensors.push_back(file_tensor(table, i, name_in_gguf(parameter.name), is_narrow ? dtype : kernels::DType::kFloat32));
  }
  return tensors;
}

tl::expected<void, std::string> write_gguf(const WeightSource& source, const GgufDescription& description,
                                           std::span<const FileTensor> tensors, const ByteSink& sink) {
  Metadata metadata = metadata_of(source.config, description);
  Bytes head;
  head.text() = "GGUF";
  head.number(kVersion);
  head.number<uint64_t>(tensors.size());
  head.number(metadata.count());
  head.text() += metadata.text();
  int64_t offset = 0;
  for (const FileTensor& tensor : tensors) {
    head.string(tensor.name);
    head.number(static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) head.number<uint64_t>(*size);
    head.number(tensor_type(tensor.dtype));
    head.number<uint64_t>(offset);
    offset += padded(tensor.bytes());
  }
  head.pad();
  sink(std::as_bytes(std::span(head.text())));
  return for_each_tensor(source, tensors, [&](const FileTensor& tensor, std::span<const float> values) {
    auto done = encode(tensor, values, sink);
    const std::vector<std::byte> rest(static_cast<size_t>(padded(tensor.bytes()) - tensor.bytes()));
    if (!rest.empty()) sink(rest);
    return done;
  });
}

}  // namespace holdfast::model
