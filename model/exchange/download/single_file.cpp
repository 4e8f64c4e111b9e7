#include "model/exchange/download/single_file.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "model/exchange/download/tar.h"

namespace holdfast::model {
namespace {

using Outcome = tl::expected<void, std::string>;

struct SizedFile {
  FileContent content;
  int64_t bytes = 0;
};

tl::expected<int64_t, std::string> size_of(const FileContent& file) {
  int64_t bytes = 0;
  const Outcome read = file.write([&bytes](std::span<const std::byte> piece) { bytes += static_cast<int64_t>(piece.size()); });
  if (!read) return tl::unexpected(read.error());
  return bytes;
}

void give(const ByteSink& sink, const std::string& text) {
  sink(std::as_bytes(std::span(text)));
}

Outcome write_tar(const std::string& folder, const std::vector<SizedFile>& files, const ByteSink& sink) {
  for (const SizedFile& file : files) {
    give(sink, tar_head(folder + "/" + file.content.name, file.bytes));
    if (const Outcome written = file.content.write(sink); !written) return written;
    give(sink, tar_padding(file.bytes));
  }
  give(sink, tar_end());
  return {};
}

int64_t tar_bytes(const std::vector<SizedFile>& files) {
  auto bytes = static_cast<int64_t>(tar_end().size());
  for (const SizedFile& file : files)
    bytes += static_cast<int64_t>(tar_head("", 0).size() + tar_padding(file.bytes).size()) + file.bytes;
  return bytes;
}

}  // namespace

tl::expected<SingleFile, std::string> single_file(const WeightSource& source, const ExportRequest& request,
                                                  const std::string& stem) {
  auto contents = export_files(source, request);
  if (!contents) return tl::unexpected(contents.error());
  auto files = std::make_shared<std::vector<SizedFile>>();
  for (FileContent& content : *contents) {
    const auto bytes = size_of(content);
    if (!bytes) return tl::unexpected(bytes.error());
    files->push_back({std::move(content), *bytes});
  }
  const char* format = kExchangeFormats[static_cast<size_t>(request.format)];
  if (files->size() == 1) {
    const SizedFile& only = files->front();
    return SingleFile{fmt::format("{}.{}", stem, format), "application/octet-stream", only.bytes,
                      [files](const ByteSink& sink) { return files->front().content.write(sink); }};
  }
  return SingleFile{fmt::format("{}-{}.tar", stem, format), "application/x-tar", tar_bytes(*files),
                    [files, stem](const ByteSink& sink) { return write_tar(stem, *files, sink); }};
}

}  // namespace holdfast::model
