#include "worker/serving/stages/pass_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace holdfast::worker {
namespace {

static_assert(std::endian::native == std::endian::little);

template <typename T>
void append(std::string& bytes, std::span<const T> values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}
void append(std::string& bytes, int64_t value) {
  append(bytes, std::span<const int64_t>(&value, 1));
}

// Reads from the front; a read beyond the end makes it bad, for good.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  std::vector<T> take(int64_t count) {
    if (count < 0 || static_cast<uint64_t>(count) > bytes_.size() / sizeof(T)) {
      is_bad_ = true;
      return {};
    }
    std::vector<T> values(static_cast<size_t>(count));
    const size_t size = values.size() * sizeof(T);
    if (size > 0) std::memcpy(values.data(), bytes_.data(), size);
    bytes_.remove_prefix(size);
    return values;
  }
  int64_t number() {
    const auto one = take<int64_t>(1);
    return one.empty() ? -1 : one[0];
  }
  bool is_bad() const { return is_bad_; }
  bool is_at_end() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool is_bad_ = false;
};

// "": it may be given to the decoder.
std::string complaint(const model::Feed& feed, const model::Decoder& decoder) {
  const auto count = static_cast<int64_t>(feed.tokens.size());
  const auto& config = decoder.config();
  if (count == 0) return "a sequence without tokens";
  if (feed.position < 0 || feed.position > config.block_size - count)
    return fmt::format("{} positions from {} on, expected them below {}", count, feed.position, config.block_size);
  const auto outside = [](std::span<const int32_t> values, int64_t limit) {
    return std::ranges::any_of(values, [&](int32_t value) { return value < 0 || value >= limit; });
  };
  if (outside(feed.tokens, config.vocab_size)) return fmt::format("a token that is not below {}", config.vocab_size);
  if (outside(feed.pages, decoder.limits().pages)) return fmt::format("a page that is not below {}", decoder.limits().pages);
  if (static_cast<int64_t>(feed.pages.size()) < decoder.pages_of(feed.position + count))
    return fmt::format("{} pages for {} positions", feed.pages.size(), feed.position + count);
  return "";
}

}  // namespace

std::string bytes_of(std::span<const model::Feed> feeds, const std::optional<model::BetweenLayers>& from) {
  std::string bytes;
  append(bytes, static_cast<int64_t>(feeds.size()));
  for (const model::Feed& feed : feeds) {
    for (const int64_t number :
         {static_cast<int64_t>(feed.tokens.size()), feed.position, static_cast<int64_t>(feed.pages.size())})
      append(bytes, number);
    append(bytes, feed.tokens);
    append(bytes, feed.pages);
  }
  if (from) bytes += bytes_of(*from);
  return bytes;
}

std::string bytes_of(const model::BetweenLayers& between) {
  std::string bytes;
  append(bytes, between.residual);
  append(bytes, between.branch);
  return bytes;
}

std::optional<model::BetweenLayers> ReceivedPass::from() const {
  if (residual.empty()) return {};
  return model::BetweenLayers{residual, branch};
}

tl::expected<ReceivedPass, std::string> read_pass(std::string_view bytes, const model::Decoder& decoder, bool is_first) {
  Reader reader(bytes);
  ReceivedPass pass;
  const int64_t sequences = reader.number();
  if (sequences < 1 || sequences > decoder.limits().rows)
    return tl::unexpected(fmt::format("{} sequences, expected 1 to {}", sequences, decoder.limits().rows));
  int64_t rows = 0;
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < sequences && !reader.is_bad(); ++i) {
    const int64_t tokens = reader.number();
    positions.push_back(reader.number());
    const int64_t pages = reader.number();
    pass.tokens.push_back(reader.take<int32_t>(tokens));
    pass.pages.push_back(reader.take<int32_t>(pages));
    rows += tokens;
  }
  if (reader.is_bad()) return tl::unexpected<std::string>("it ends too soon");
  if (rows > decoder.limits().rows)
    return tl::unexpected(fmt::format("{} rows, expected at most {}", rows, decoder.limits().rows));
  for (size_t i = 0; i < positions.size(); ++i) {
    pass.feeds.push_back({.tokens = pass.tokens[i], .position = positions[i], .pages = pass.pages[i], .answers = 0});
    if (auto why = complaint(pass.feeds.back(), decoder); !why.empty()) return tl::unexpected(std::move(why));
  }
  if (!is_first) {
    pass.residual = reader.take<float>(rows * decoder.config().n_embd);
    pass.branch = reader.take<std::byte>(static_cast<int64_t>(decoder.branch_bytes(rows)));
  }
  if (reader.is_bad() || !reader.is_at_end()) return tl::unexpected<std::string>("its length is not that of its rows");
  return pass;
}

tl::expected<ReceivedRows, std::string> read_rows(std::string_view bytes, int64_t floats, size_t branch_bytes) {
  Reader reader(bytes);
  ReceivedRows rows{reader.take<float>(floats), reader.take<std::byte>(static_cast<int64_t>(branch_bytes))};
  if (reader.is_bad() || !reader.is_at_end()) {
    return tl::unexpected(
        fmt::format("{} bytes came, expected {}", bytes.size(), static_cast<size_t>(floats) * sizeof(float) + branch_bytes));
  }
  return rows;
}

}  // namespace holdfast::worker
