// The shard codec: round trips at odd sizes, and thousands of altered objects, none of which loads.
#include "storage/shards/codec.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "storage/byte_planes.h"
#include "storage/checksum.h"
#include "storage/shards/header.h"
#include "tests/storage/checks.h"
#include "tests/storage/seed.h"

namespace holdfast::storage::testing {
namespace {

struct Part {
  Bytes bytes;
  int width;
};

// Bytes like those of floats: a noisy mantissa and an exponent that hardly changes.
Bytes float_like(size_t bytes, int width, std::mt19937& random) {
  Bytes result(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    const bool exponent = i % static_cast<size_t>(width) == static_cast<size_t>(width) - 1;
    result[i] = static_cast<std::byte>(exponent ? 0x3a + random() % 3 : random());
  }
  return result;
}

Bytes pack(const std::vector<Part>& parts, int64_t first_byte = 0) {
  std::vector<ConstPiece> pieces;
  for (const Part& part : parts) pieces.push_back({part.bytes.data(), part.bytes.size(), part.width});
  ShardPacker packer;
  const auto object = packer.pack(first_byte, pieces);
  EXPECT_TRUE(ok(object));
  return {object->begin(), object->end()};
}

Result<std::vector<Part>> unpack(std::span<const std::byte> object, const std::vector<Part>& like, int64_t first_byte = 0) {
  std::vector<Part> parts = like;
  std::vector<MutablePiece> pieces;
  for (Part& part : parts) {
    std::ranges::fill(part.bytes, std::byte{0xee});
    pieces.push_back({part.bytes.data(), part.bytes.size(), part.width});
  }
  if (auto done = ShardUnpacker().unpack(object, "the shard", first_byte, pieces); !done) return tl::unexpected(done.error());
  return parts;
}

bool equal(const std::vector<Part>& a, const std::vector<Part>& b) {
  return std::ranges::equal(a, b, {}, &Part::bytes, &Part::bytes);
}

TEST(BytePlanes, ElementsOfTwoAndFourBytesComeBackAtEveryLength) {
  std::mt19937 random(1);
  for (const int width : {2, 4}) {
    for (size_t count = 0; count < 300; ++count) {
      const Bytes elements = float_like(count * static_cast<size_t>(width), width, random);
      std::vector<Bytes> planes(4, Bytes(count));
      std::byte* into[4] = {planes[0].data(), planes[1].data(), planes[2].data(), planes[3].data()};
      split_planes(elements.data(), count, width, into);
      for (size_t i = 0; i < elements.size(); ++i) {
        ASSERT_EQ(planes[i % static_cast<size_t>(width)][i / static_cast<size_t>(width)], elements[i]);
      }
      Bytes joined(elements.size());
      const std::byte* from[4] = {into[0], into[1], into[2], into[3]};
      join_planes(from, count, width, joined.data());
      ASSERT_EQ(joined, elements);
    }
  }
}

TEST(ShardCodec, PiecesOfMixedWidthsAndOddSizesComeBack) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<Part> parts;
    for (size_t i = 0; i < 1 + random() % 6; ++i) {
      const int width = random() % 3 == 0 ? 2 : 4;
      parts.push_back({float_like(random() % 200 * static_cast<size_t>(width), width, random), width});
    }
    const auto found = unpack(pack(parts, round), parts, round);
    ASSERT_TRUE(ok(found));
    ASSERT_TRUE(equal(*found, parts)) << "round " << round;
  }
}

TEST(ShardCodec, ExponentsShrinkAndNoiseIsStoredAsItIs) {
  std::mt19937 random(3);
  const std::vector<Part> parts{{float_like(40000, 4, random), 4}};
  const Bytes object = pack(parts);
  EXPECT_LT(object.size(), 34000U);
  EXPECT_GT(object.size(), 30000U) << "three planes of noise of 10000 bytes each";
}

TEST(ShardCodec, APieceThatIsNotWantedIsSkipped) {
  std::mt19937 random(4);
  const std::vector<Part> parts{
      {float_like(400, 4, random), 4}, {float_like(40, 2, random), 2}, {float_like(80, 4, random), 4}};
  const Bytes object = pack(parts);
  Bytes last(80);
  const MutablePiece pieces[] = {{nullptr, 400, 4}, {nullptr, 40, 2}, {last.data(), 80, 4}};
  ASSERT_TRUE(ok(ShardUnpacker().unpack(object, "x", 0, pieces)));
  EXPECT_EQ(last, parts[2].bytes);
}

TEST(ShardCodec, AShardOfAnotherRangeOrLayoutIsNamed) {
  std::mt19937 random(5);
  const std::vector<Part> parts{{float_like(400, 4, random), 4}};
  const Bytes object = pack(parts, 800);
  EXPECT_EQ(unpack(object, parts, 400).error().message, "the shard: byte 16: the first byte is 800, expected 400");
  EXPECT_NE(unpack(object, {{Bytes(404), 4}}, 800).error().message.find("the raw length is 400, expected 404"),
            std::string::npos);
  EXPECT_NE(unpack(object, {{Bytes(400), 2}}, 800).error().message.find("the header's length is"), std::string::npos);
}

TEST(ShardCodec, ANewerVersionIsRefusedWithBothNumbers) {
  std::mt19937 random(6);
  const std::vector<Part> parts{{float_like(400, 4, random), 4}};
  Bytes object = pack(parts);
  object[8] = std::byte{7};
  const auto found = unpack(object, parts);
  EXPECT_EQ(found.error().code, Error::Code::kRefused);
  EXPECT_NE(found.error().message.find("version 7, this Holdfast reads up to 1"), std::string::npos) << found.error().message;
}

TEST(ShardCodec, TooLargeAShardIsRefusedBeforeMemoryIsTaken) {
  const std::byte nothing{};
  const ConstPiece piece{&nothing, static_cast<size_t>(kShardRawBytesMax) + 4, 4};
  EXPECT_EQ(ShardPacker().pack(0, {&piece, 1}).error().code, Error::Code::kRefused);
}

// The object, altered in a random way.
Bytes altered(Bytes object, std::mt19937& random) {
  const auto place = [&] { return random() % object.size(); };
  switch (random() % 7) {
    case 0:  // a bit flips
      object[place()] ^= static_cast<std::byte>(1U << (random() % 8));
      break;
    case 1:  // cut short
      object.resize(place());
      break;
    case 2:  // made longer
      object.resize(object.size() + 1 + random() % 20, static_cast<std::byte>(random()));
      break;
    case 3: {  // a field becomes huge, or small
      const uint64_t values[] = {0, 1, 0xffffffffU, 0x7fffffffffffffffU, 0xffffffffffffffffU, uint64_t{1} << 40};
      const size_t at = place() / 8 * 8;
      std::memcpy(&object[at], &values[random() % std::size(values)], std::min<size_t>(8, object.size() - at));
      break;
    }
    case 4: {  // a block of zeros, as a torn write leaves
      const size_t at = place();
      std::fill(object.begin() + static_cast<std::ptrdiff_t>(at), object.end(), std::byte{0});
      break;
    }
    case 5: {  // two parts change places
      const size_t a = place(), b = place();
      for (size_t i = 0; i < 16 && std::max(a, b) + i < object.size(); ++i) std::swap(object[a + i], object[b + i]);
      break;
    }
    default:  // some bytes become random
      for (int i = 0; i < 4; ++i) object[place()] = static_cast<std::byte>(random());
  }
  return object;
}

// Makes the checksums fit again, so that the checks behind them are reached.
void forge_header_checksum(Bytes& object, size_t header_bytes, uint64_t (*checksum)(std::span<const std::byte>)) {
  if (object.size() < header_bytes) return;
  const uint64_t sum = checksum(std::span(object).first(header_bytes - 8));
  std::memcpy(&object[header_bytes - 8], &sum, 8);
}

TEST(ShardCodec, NoneOfThousandsOfAlteredShardsLoads) {
  const uint32_t seed = chosen_seed();
  SCOPED_TRACE(how_to_repeat(seed));
  std::mt19937 random(seed);
  const std::vector<Part> parts{
      {float_like(1200, 4, random), 4}, {float_like(300, 2, random), 2}, {float_like(600, 4, random), 4}};
  const Bytes object = pack(parts, 64);
  for (int round = 0; round < 20000; ++round) {
    const Bytes other = altered(object, random);
    if (other == object) continue;
    const auto found = unpack(other, parts, 64);
    ASSERT_FALSE(found) << "round " << round;
    ASSERT_TRUE(found.error().message.starts_with("the shard: ")) << found.error().message;
  }
}

TEST(ShardCodec, AForgedHeaderIsStillCheckedLengthByLength) {
  const uint32_t seed = chosen_seed();
  SCOPED_TRACE(how_to_repeat(seed));
  std::mt19937 random(seed);
  const std::vector<Part> parts{{float_like(1200, 4, random), 4}, {float_like(300, 2, random), 2}};
  const Bytes object = pack(parts);
  const size_t header_bytes = shard_header_bytes(2, 6);
  for (int round = 0; round < 20000; ++round) {
    Bytes other = object;
    for (size_t i = 0; i < 1 + random() % 3; ++i) {
      const uint64_t values[] = {0, 1, random(), 0xffffffffU, 0xffffffffffffffffU, object.size(), object.size() + 1};
      const size_t at = random() % (header_bytes - 8) / 4 * 4;
      std::memcpy(&other[at], &values[random() % std::size(values)], random() % 2 == 0 ? 4 : 8);
    }
    forge_header_checksum(other, header_bytes, checksum_64);
    if (other == object) continue;
    const auto found = unpack(other, parts);
    ASSERT_FALSE(found) << "round " << round;
  }
}

TEST(ShardCodec, AForgedZstdFrameIsAnErrorAndNeverMoreThanItsPlane) {
  const uint32_t seed = chosen_seed();
  SCOPED_TRACE(how_to_repeat(seed));
  std::mt19937 random(seed);
  const std::vector<Part> parts{{Bytes(4000, std::byte{7}), 4}};  // four planes that compress to a few bytes each
  const Bytes object = pack(parts);
  const size_t header_bytes = shard_header_bytes(1, 4);
  for (int round = 0; round < 20000; ++round) {
    Bytes other = object;
    for (size_t i = 0; i < 1 + random() % 3; ++i)
      other[header_bytes + random() % (object.size() - header_bytes)] = static_cast<std::byte>(random());
    size_t at = header_bytes;
    for (size_t plane = 0; plane < 4; ++plane) {
      std::byte* entry = &other[40 + 16 + plane * 24];
      uint64_t stored = 0;
      std::memcpy(&stored, entry, 8);
      const uint64_t sum = checksum_64(std::span(other).subspan(at, stored));
      std::memcpy(entry + 16, &sum, 8);
      at += stored;
    }
    forge_header_checksum(other, header_bytes, checksum_64);
    // A wholly forged frame may decompress to other bytes; the manifest's checksum finds that.
    const auto found = unpack(other, parts);
    if (!found) {
      ASSERT_EQ(found.error().code, Error::Code::kCorrupt) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace holdfast::storage::testing
