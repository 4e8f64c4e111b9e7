#include "model/data/token_writer.h"

#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace holdfast::model {

namespace {

std::array<int32_t, 256> llmc_header(int64_t tokens) {
  std::array<int32_t, 256> header{};
  header[0] = 20240520;  // llm.c's magic and version
  header[1] = 1;
  header[2] = static_cast<int32_t>(tokens);
  return header;
}

}  // namespace

int64_t token_file_bytes(int64_t tokens, const std::string& format) {
  return tokens * static_cast<int64_t>(sizeof(uint16_t)) +
         (format == "llm.c" ? static_cast<int64_t>(sizeof(llmc_header(0))) : 0);
}

TokenWriter::TokenWriter(std::string path, const std::string& format, std::optional<int64_t> kept)
    : file_(std::move(path), kept ? std::optional(token_file_bytes(*kept, format)) : std::nullopt),
      has_header_(format == "llm.c"),
      tokens_(kept.value_or(0)) {
  if (has_header_ && !kept) file_.write(llmc_header(0).data(), sizeof(llmc_header(0)));
}

void TokenWriter::add(std::span<const int32_t> ids) {
  const std::vector<uint16_t> narrow(ids.begin(), ids.end());
  file_.write(narrow.data(), narrow.size() * sizeof(uint16_t));
  tokens_ += static_cast<int64_t>(ids.size());
}

tl::expected<void, std::string> TokenWriter::finish() {
  if (has_header_ && tokens_ > std::numeric_limits<int32_t>::max()) {
    return tl::unexpected(file_.path() + ": " + std::to_string(tokens_) +
                          " tokens are more than llm.c's header can count (2147483647). Use the format nanogpt.");
  }
  if (has_header_) {
    file_.rewind();
    file_.write(llmc_header(tokens_).data(), sizeof(llmc_header(tokens_)));
  }
  return file_.finish();
}

}  // namespace holdfast::model
