#include "rendezvous/api/exports/model_download.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "model/exchange/checkpoint_weights.h"
#include "model/exchange/export.h"
#include "rendezvous/api/answers/answers.h"
#include "rendezvous/data_dir/object_folders.h"
#include "rendezvous/protocol/data_source.h"
#include "storage/open_store.h"
#include "storage/places/place.h"

namespace holdfast::rendezvous {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = 256 << 10, kUnreadBytes = 256 << 10;  // together below the bound of a stream
constexpr int kReadingThreads = 1;                                   // training comes first

std::string without_scheme(const std::string& path) {
  return path.starts_with("file://") ? path.substr(7) : path;
}

std::string command_for(const ExportOrder& order, const std::string& place, const std::string& more) {
  return fmt::format("holdfast ckpt export {}@{} --format {} --dtype {}{} --output {}-{}", place, order.step, order.format,
                     order.dtype, more, order.job, order.format);
}

// "j1-step-60", "j1-step-60-float16".
std::string stem_of(const ExportOrder& order) {
  const std::string stem = fmt::format("{}-step-{}", order.job, order.step);
  return order.dtype == "float32" ? stem : fmt::format("{}-{}", stem, order.dtype);
}

Outcome<std::unique_ptr<HeldObjects>> open_store_of(const ExportOrder& order, const ExportPlaces& places) {
  if (order.store.empty()) {
    auto own = open_objects_folder(places.data_dir, order.job);
    if (!own) return tl::unexpected(storage_problem(own.error()));
    return std::make_unique<HeldObjects>(*std::move(own), objects_folder(places.data_dir, order.job));
  }
  const std::string folder = without_scheme(order.store), of_job = storage::place_below(folder, order.job);
  // This check comes first: a user who may not read a folder is not told either what is in it.
  if (const auto allowed = storage::check_roots(folder, places.checkpoint_roots); !allowed)
    return tl::unexpected(problem(409, "not_here", allowed.error().message));
  std::error_code ignored;
  if (!storage::is_s3(folder) && !fs::is_directory(folder, ignored)) {
    return tl::unexpected(problem(409, "not_here",
                                  fmt::format("{} keeps its checkpoints in {}, which is not on the service's machine: run this "
                                              "where it is: {}",
                                              order.job, folder, command_for(order, of_job, ""))));
  }
  auto shared =
      storage::open_store(folder, order.job, {.missing = storage::MissingFolder::kFail, .roots = places.checkpoint_roots});
  if (!shared) return tl::unexpected(storage_problem(shared.error()));
  return std::make_unique<HeldObjects>(*std::move(shared), of_job);
}

// The training file's folder is the workers', and perhaps on this machine, too.
tl::expected<std::unique_ptr<model::Tokenizer>, std::string> tokenizer_in(const std::string& folder,
                                                                          const ExportPlaces& places) {
  if (!fs::path(folder).is_absolute())
    return tl::unexpected(std::string("the job's train_data_path names no folder of the service's machine"));
  if (const auto allowed = storage::check_roots(folder, places.checkpoint_roots); !allowed)
    return tl::unexpected(allowed.error().message);
  return model::Tokenizer::load(folder);
}

}  // namespace

Outcome<std::shared_ptr<ModelDownload>> ModelDownload::prepare(ExportOrder order, const ExportPlaces& places,
                                                               std::shared_ptr<const std::atomic<bool>> stop,
                                                               std::shared_ptr<void> hold) {
  std::shared_ptr<ModelDownload> download(new ModelDownload(std::move(order)));
  download->stop_ = std::move(stop);
  download->hold_ = std::move(hold);
  if (auto opened = download->open(places); !opened) return tl::unexpected(std::move(opened.error()));
  if (auto found = download->find_tokenizer(places); !found) return tl::unexpected(std::move(found.error()));
  if (auto read = download->survey(); !read) return tl::unexpected(std::move(read.error()));
  return download;
}

Outcome<void> ModelDownload::open(const ExportPlaces& places) {
  auto store = open_store_of(order_, places);
  if (!store) return tl::unexpected(std::move(store.error()));
  store_ = *std::move(store);
  const auto kept = store_->keep(storage::manifest_key(order_.step));
  auto manifest = storage::read_manifest(*store_, order_.step);
  if (!manifest) return tl::unexpected(storage_problem(manifest.error()));
  if (!kept) return tl::unexpected(storage_problem(kept.error()));
  manifest_ = *std::move(manifest);
  for (const storage::ShardInfo& shard : manifest_.shards) store_->hold(shard.key);
  checkpoint_ = model::checkpoint_weights(*store_, manifest_, kReadingThreads, failure_);
  weights_ = {checkpoint_.config, [this](std::span<const storage::MutableTensor> tensors) { return read(tensors); }};
  return {};
}

Outcome<void> ModelDownload::find_tokenizer(const ExportPlaces& places) {
  const nlohmann::json& spec = manifest_.spec;
  const auto path = spec.is_object() ? spec.value("train_data_path", nlohmann::json()) : nlohmann::json();
  auto found = tokenizer_in(path.is_string() ? training_folder(path.get<std::string>()) : "", places);
  if (found) {
    tokenizer_ = *std::move(found);
  } else if (order_.format == "gguf") {
    return tl::unexpected(
        problem(409, "no_tokenizer",
                fmt::format("GGUF has the tokenizer inside, and the service finds none. Run this where it is: {}. ({})",
                            command_for(order_, "job:" + order_.job, " --tokenizer DIR"), found.error())));
  }
  return {};
}

Outcome<void> ModelDownload::survey() {
  model::ExportRequest request;
  request.format = model::exchange_format(order_.format).value();
  request.dtype = kernels::dtype_named(order_.dtype).value();
  request.tokenizer = tokenizer_.get();
  request.name = fmt::format("{} step {}", manifest_.job, manifest_.step);
  auto file = model::single_file(weights_, request, stem_of(order_));
  if (failure_) return tl::unexpected(storage_problem(*failure_));
  if (!file) return tl::unexpected(problem(409, "cannot_export", file.error()));
  file_ = *std::move(file);
  return {};
}

tl::expected<void, std::string> ModelDownload::read(std::span<const storage::MutableTensor> tensors) {
  if (reader_gone_) return tl::unexpected(std::string("nobody reads it any more"));
  if (!*stop_) return checkpoint_.read(tensors);
  failure_ = storage::Error{storage::Error::Code::kUnavailable, "the service is stopping: try again"};
  return tl::unexpected(failure_->message);
}

tl::expected<void, std::string> ModelDownload::send(EventStream& stream) {
  int64_t sent = 0;
  const auto give = [&](std::span<const std::byte> bytes) {
    sent += static_cast<int64_t>(bytes.size());
    while (!bytes.empty() && !reader_gone_) {
      const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
      reader_gone_ = !stream.await_reader(kUnreadBytes) ||
                     !stream.write(std::string(reinterpret_cast<const char*>(piece.data()), piece.size()));
      bytes = bytes.subspan(piece.size());
    }
  };
  auto written = file_.write(give);
  if (reader_gone_ || *stop_) {
    stream.abandon();
    return {};
  }
  if (written && sent != file_.bytes)
    written = tl::unexpected(fmt::format("{} has {} bytes now, and {} were announced", file_.name, sent, file_.bytes));
  written ? stream.close() : stream.abandon();
  return written;
}

}  // namespace holdfast::rendezvous
