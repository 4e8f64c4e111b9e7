#include "storage/shards/header.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "storage/checksum.h"
#include "storage/failure.h"

namespace holdfast::storage {
namespace {

// As PNG's: a high bit for 7-bit channels, line ends that text conversions alter, and a byte that stops a listing.
constexpr std::array<uint8_t, 8> kMagic = {0x89, 'H', 'F', 'S', '\r', '\n', 0x1a, '\n'};
constexpr uint32_t kVersion = 1;
constexpr size_t kFixedBytes = 40, kRunBytes = 16, kPlaneBytes = 24, kChecksumBytes = 8;

class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}
  template <typename T>
  void put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) *at_++ = static_cast<std::byte>(value >> (8 * i));
  }

 private:
  std::byte* at_;
};

template <typename T>
T get(const std::byte* at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(std::to_integer<T>(at[i]) << (8 * i));
  return value;
}

class Parser {
 public:
  Parser(std::span<const std::byte> object, const std::string& name) : object_(object), name_(name) {}

  tl::unexpected<Error> wrong(size_t offset, const std::string& what, uint64_t expected, uint64_t found) const {
    return fail(Error::Code::kCorrupt, "{}: byte {}: {} is {}, expected {}", name_, offset, what, found, expected);
  }
  Result<void> expect_32(size_t offset, const std::string& what, uint32_t expected) const {
    const auto found = get<uint32_t>(&object_[offset]);
    if (found != expected) return wrong(offset, what, expected, found);
    return {};
  }
  Result<void> expect_64(size_t offset, const std::string& what, uint64_t expected) const {
    const auto found = get<uint64_t>(&object_[offset]);
    if (found != expected) return wrong(offset, what, expected, found);
    return {};
  }

  Result<void> magic_and_version() const;
  Result<void> header_checksum(size_t header_bytes) const;
  Result<std::vector<ShardPlane>> planes(size_t offset, std::span<const ShardRun> runs, size_t header_bytes) const;

 private:
  std::span<const std::byte> object_;
  const std::string& name_;
};

Result<void> Parser::magic_and_version() const {
  if (object_.size() < kFixedBytes) {
    return fail(Error::Code::kCorrupt, "{}: has {} bytes, a shard has at least {}: it was cut short", name_, object_.size(),
                size_t{kFixedBytes});
  }
  if (std::memcmp(object_.data(), kMagic.data(), kMagic.size()) != 0) {
    return fail(Error::Code::kCorrupt, "{}: byte 0: does not begin as a shard does (89 48 46 53 0d 0a 1a 0a)", name_);
  }
  if (const auto version = get<uint32_t>(&object_[8]); version > kVersion) {
    return fail(Error::Code::kRefused,
                "{}: is a shard of version {}, this Holdfast reads up to {}: use the one that wrote it, or a newer one", name_,
                version, uint32_t{kVersion});
  }
  return expect_32(8, "the shard version", kVersion);
}

Result<void> Parser::header_checksum(size_t header_bytes) const {
  if (object_.size() < header_bytes) {
    return fail(Error::Code::kCorrupt, "{}: has {} bytes, its header alone has {}: it was cut short", name_, object_.size(),
                header_bytes);
  }
  const size_t at = header_bytes - kChecksumBytes;
  if (get<uint64_t>(&object_[at]) == checksum_64(object_.first(at))) return {};
  return fail(Error::Code::kCorrupt, "{}: bytes 0 to {}: the header does not match its checksum: it was altered or torn", name_,
              at);
}

Result<std::vector<ShardPlane>> Parser::planes(size_t offset, std::span<const ShardRun> runs, size_t header_bytes) const {
  std::vector<ShardPlane> planes;
  uint64_t left = object_.size() - header_bytes;
  for (const ShardRun& run : runs) {
    const uint64_t raw = run.raw_bytes / run.width;
    for (uint32_t k = 0; k < run.width; ++k, offset += kPlaneBytes) {
      const ShardPlane plane{get<uint64_t>(&object_[offset]), get<uint32_t>(&object_[offset + 8]),
                             get<uint64_t>(&object_[offset + 16])};
      if (plane.encoding > ShardPlane::kZstd)
        return wrong(offset + 8, "the encoding of a plane", ShardPlane::kZstd, plane.encoding);
      if (auto zero = expect_32(offset + 12, "a reserved field", 0); !zero) return tl::unexpected(zero.error());
      if (plane.encoding == ShardPlane::kRaw && plane.stored_bytes != raw)
        return wrong(offset, "the length of a plane", raw, plane.stored_bytes);
      if (plane.stored_bytes > left) return wrong(offset, "the length of a plane", left, plane.stored_bytes);
      left -= plane.stored_bytes;
      planes.push_back(plane);
    }
  }
  if (left != 0) return wrong(object_.size() - left, "the number of bytes after the last plane", 0, left);
  return planes;
}

}  // namespace

size_t shard_header_bytes(size_t runs, size_t planes) {
  return kFixedBytes + runs * kRunBytes + planes * kPlaneBytes + kChecksumBytes;
}

void write_shard_header(const ShardHeader& header, uint64_t raw_bytes, std::byte* object) {
  const size_t bytes = shard_header_bytes(header.runs.size(), header.planes.size());
  std::memcpy(object, kMagic.data(), kMagic.size());
  Writer out(object + kMagic.size());
  out.put(kVersion);
  out.put(static_cast<uint32_t>(bytes));
  out.put(header.first_byte);
  out.put(raw_bytes);
  out.put(static_cast<uint32_t>(header.runs.size()));
  out.put(static_cast<uint32_t>(header.planes.size()));
  for (const ShardRun& run : header.runs) {
    out.put(run.raw_bytes);
    out.put(run.width);
    out.put(uint32_t{0});
  }
  for (const ShardPlane& plane : header.planes) {
    out.put(plane.stored_bytes);
    out.put(plane.encoding);
    out.put(uint32_t{0});
    out.put(plane.checksum);
  }
  out.put(checksum_64({object, bytes - kChecksumBytes}));
}

Result<ShardHeader> parse_shard_header(std::span<const std::byte> object, const std::string& name, uint64_t first_byte,
                                       std::span<const ShardRun> runs) {
  const Parser in(object, name);
  uint64_t raw_bytes = 0;
  uint32_t planes = 0;
  for (const ShardRun& run : runs) {
    raw_bytes += run.raw_bytes;
    planes += run.width;
  }
  const size_t header_bytes = shard_header_bytes(runs.size(), planes);
  Result<void> fine = in.magic_and_version();
  if (fine) fine = in.expect_32(12, "the header's length", static_cast<uint32_t>(header_bytes));
  if (fine) fine = in.header_checksum(header_bytes);
  if (fine) fine = in.expect_64(16, "the first byte", first_byte);
  if (fine) fine = in.expect_64(24, "the raw length", raw_bytes);
  if (fine) fine = in.expect_32(32, "the number of runs", static_cast<uint32_t>(runs.size()));
  if (fine) fine = in.expect_32(36, "the number of planes", planes);
  size_t offset = kFixedBytes;
  for (size_t i = 0; fine && i < runs.size(); ++i, offset += kRunBytes) {
    fine = in.expect_64(offset, "the length of a run", runs[i].raw_bytes);
    if (fine) fine = in.expect_32(offset + 8, "the width of a run's elements", runs[i].width);
    if (fine) fine = in.expect_32(offset + 12, "a reserved field", 0);
  }
  if (!fine) return tl::unexpected(fine.error());
  auto parsed = in.planes(offset, runs, header_bytes);
  if (!parsed) return tl::unexpected(parsed.error());
  return ShardHeader{first_byte, {runs.begin(), runs.end()}, std::move(*parsed)};
}

}  // namespace holdfast::storage
