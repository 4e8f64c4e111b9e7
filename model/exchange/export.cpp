#include "model/exchange/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "model/data/new_file.h"
#include "model/exchange/gguf.h"
#include "model/exchange/hugging_face.h"
#include "model/exchange/npz.h"
#include "model/exchange/safetensors.h"
#include "model/exchange/tokenizer_kinds.h"

namespace holdfast::model {

namespace {

namespace fs = std::filesystem;
using Outcome = tl::expected<void, std::string>;

// The file with the parameters, and those beside it.
struct Plan {
  FileContent parameters;
  std::vector<TextFile> beside;
};
using Planned = tl::expected<Plan, std::string>;

Planned plan_safetensors(const WeightSource& source, const ExportRequest& request) {
  const int32_t end = request.tokenizer ? request.tokenizer->end_of_document() : -1;
  Plan plan{{"model.safetensors", [&source, tensors = hugging_face_tensors(source.config, request.dtype)](
                                      const ByteSink& sink) { return write_safetensors(source, tensors, sink); }},
            {{"config.json", hugging_face_config(source.config, request.dtype, end)},
             {"generation_config.json", hugging_face_generation_config(end)}}};
  if (!request.tokenizer) return plan;
  const auto files = hugging_face_tokenizer(*request.tokenizer, source.config.block_size);
  if (!files) return tl::unexpected(files.error());
  plan.beside.insert(plan.beside.end(), files->begin(), files->end());
  return plan;
}

Planned plan_gguf(const WeightSource& source, const ExportRequest& request) {
  if (!request.tokenizer) {
    return tl::unexpected(
        std::string("GGUF has the tokenizer inside, and there is none: give the folder that `holdfast data prepare` wrote as "
                    "the tokenizer"));
  }
  auto tokenizer = gguf_tokenizer(*request.tokenizer, source.config.vocab_size);
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  const GgufDescription description{request.name, request.dtype, *std::move(tokenizer)};
  return Plan{{"model.gguf", [&source, description, tensors = gguf_tensors(source.config, request.dtype)](
                                 const ByteSink& sink) { return write_gguf(source, description, tensors, sink); }},
              {}};
}

Planned plan_npz(const WeightSource& source, const ExportRequest& request) {
  if (request.dtype == kernels::DType::kBFloat16) {
    return tl::unexpected(std::string("npz in bfloat16: numpy has no such type. Export it as float32 or float16."));
  }
  const Gpt2Config& config = source.config;
  const nlohmann::ordered_json sizes = {{"n_layer", config.n_layer},       {"n_embd", config.n_embd},
                                        {"n_head", config.n_head},         {"vocab_size", config.vocab_size},
                                        {"block_size", config.block_size}, {"tied_head", config.ties_head}};
  Plan plan{{"model.npz", [&source, tensors = npz_tensors(config, request.dtype)](
                              const ByteSink& sink) { return write_npz(source, tensors, sink); }},
            {{"config.json", sizes.dump(2) + "\n"}}};
  if (request.tokenizer) plan.beside.push_back({request.tokenizer->file_name(), request.tokenizer->file_bytes()});
  return plan;
}

Planned plan_for(const WeightSource& source, const ExportRequest& request) {
  if (const auto problems = source.config.problems(); !problems.empty())
    return tl::unexpected(fmt::format("the checkpoint's model cannot be built: {}", fmt::join(problems, "; ")));
  const int64_t model = source.config.vocab_size;
  if (request.tokenizer && request.tokenizer->vocab_size() > model) {
    return tl::unexpected(fmt::format("the tokenizer has {} tokens and the model {}: it was trained with another tokenizer",
                                      request.tokenizer->vocab_size(), model));
  }
  switch (request.format) {
    case ExchangeFormat::kSafetensors:
      return plan_safetensors(source, request);
    case ExchangeFormat::kGguf:
      return plan_gguf(source, request);
    case ExchangeFormat::kNpz:
      return plan_npz(source, request);
  }
  return tl::unexpected(std::string("no such format"));
}

// Makes the folder where it is not there. Files in it may be those of an earlier export of the same kind, whole or not.
Outcome check_folder(const std::string& folder, const std::vector<std::string>& names) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && !fs::is_directory(folder, error)) error = std::make_error_code(std::errc::not_a_directory);
  std::vector<std::string> others;
  for (fs::directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
    const std::string name = file->path().filename().string();
    const std::string whole = name.ends_with(".tmp") ? name.substr(0, name.size() - 4) : name;
    if (std::ranges::find(names, whole) == names.end()) others.push_back(name);
  }
  if (error)
    return tl::unexpected(fmt::format("{}: cannot be used: {}. Give a folder that can be written.", folder, error.message()));
  if (others.empty()) return {};
  std::ranges::sort(others);
  const size_t shown = std::min<size_t>(others.size(), 3);
  return tl::unexpected(fmt::format("{}: has {}{}, which this export does not write. Give a folder of its own, or empty it.",
                                    folder,
                                    fmt::join(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                                    others.size() > shown ? fmt::format(" and {} more", others.size() - shown) : ""));
}

// The files under their temporary names until all are whole.
class Output {
 public:
  explicit Output(std::string folder) : folder_(std::move(folder)) {}

  Outcome add(const std::string& name, const std::function<Outcome(const ByteSink&)>& write) {
    NewFile& file = *files_.emplace_back(std::make_unique<NewFile>((fs::path(folder_) / name).string()));
    exported_.push_back({file.path(), 0});
    const Outcome written = write([&](std::span<const std::byte> bytes) {
      file.write(bytes.data(), bytes.size());
      exported_.back().bytes += static_cast<int64_t>(bytes.size());
    });
    return written || file.has_failed() ? file.finish() : written;
  }
  bool has_failed() const { return !files_.empty() && files_.back()->has_failed(); }

  tl::expected<std::vector<ExportedFile>, std::string> publish() {
    for (const auto& file : files_) {
      if (const Outcome published = file->publish(); !published) return tl::unexpected(published.error());
    }
    return exported_;
  }

 private:
  std::string folder_;
  std::vector<std::unique_ptr<NewFile>> files_;
  std::vector<ExportedFile> exported_;
};

}  // namespace

std::optional<ExchangeFormat> exchange_format(std::string_view name) {
  const auto found = std::ranges::find(kExchangeFormats, name);
  if (found == std::end(kExchangeFormats)) return std::nullopt;
  return static_cast<ExchangeFormat>(found - std::begin(kExchangeFormats));
}

tl::expected<std::vector<FileContent>, std::string> export_files(const WeightSource& source, const ExportRequest& request) {
  Planned plan = plan_for(source, request);
  if (!plan) return tl::unexpected(plan.error());
  std::vector<FileContent> files;
  for (TextFile& file : plan->beside) {
    files.push_back({std::move(file.name), [bytes = std::move(file.bytes)](const ByteSink& sink) -> Outcome {
                       sink(std::as_bytes(std::span(bytes)));
                       return {};
                     }});
  }
  files.push_back(std::move(plan->parameters));
  return files;
}

tl::expected<std::vector<ExportedFile>, std::string> export_model(const WeightSource& source, const ExportRequest& request) {
  Output output(request.folder);
  // Nothing more is read for a file that takes no more: of a large model that may be hours of a service's network.
  const WeightSource while_it_writes{source.config, [&](std::span<const storage::MutableTensor> tensors) -> Outcome {
                                       if (output.has_failed()) return tl::unexpected(std::string("the file takes no more"));
                                       return source.read(tensors);
                                     }};
  const auto files = export_files(while_it_writes, request);
  if (!files) return tl::unexpected(files.error());
  std::vector<std::string> names;
  for (const FileContent& file : *files) names.push_back(file.name);
  if (const Outcome good = check_folder(request.folder, names); !good) return tl::unexpected(good.error());
  for (const FileContent& file : *files) {
    if (const Outcome added = output.add(file.name, file.write); !added) return tl::unexpected(added.error());
  }
  return output.publish();
}

}  // namespace holdfast::model
