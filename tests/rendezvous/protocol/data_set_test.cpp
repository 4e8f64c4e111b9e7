#include "rendezvous/protocol/data_set.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

const std::string kA(64, 'a'), kB(64, 'b'), kC(64, 'c');

DataManifest two_files() {
  return {{{"info.json", 10, {kA}}, {"train.bin", kChunkBytes + 2, {kB, kC}, 5, 7, "5-ab"}}};
}

std::string refused(const Json& manifest) {
  const auto read = data_manifest_from_json(manifest);
  return read ? "taken" : read.error();
}

TEST(DataManifest, ComesBackFromItsJsonWithTheSameDigest) {
  const auto read = data_manifest_from_json(Json::parse(to_json(two_files()).dump()));
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(*read, two_files());
  EXPECT_EQ(read->digest(), two_files().digest());
  EXPECT_EQ(read->digest().size(), 64U);
}

TEST(DataManifest, ChunksCountThroughTheFiles) {
  const DataManifest manifest = two_files();
  EXPECT_EQ(manifest.chunks(), 3);
  EXPECT_EQ(first_chunk_of(manifest, manifest.files[1]), 1);
  const ChunkPlace last = chunk_at(manifest, 2);
  EXPECT_EQ(last.file->name, "train.bin");
  EXPECT_EQ(last.offset, kChunkBytes);
  EXPECT_EQ(last.bytes, 2);
  EXPECT_EQ(*last.name, kC);
  EXPECT_THROW(chunk_at(manifest, 3), std::out_of_range);
}

TEST(DataManifest, WrongOnesAreRefusedByPlace) {
  const Json good = to_json(two_files());
  const auto with = [&](const char* pointer, const Json& value) {
    Json changed = good;
    changed[Json::json_pointer(pointer)] = value;
    return refused(changed);
  };
  EXPECT_EQ(refused(good), "taken");
  EXPECT_EQ(refused(Json::array()), "manifest: expected an object, got an array");
  EXPECT_EQ(with("/format", 2), "format: 2 is none that this release reads: expected 1");
  EXPECT_EQ(with("/chunk_bytes", 5), "chunk_bytes: 5, expected 4194304");
  EXPECT_EQ(with("/files", Json::array()), "files: expected 1 to 64 of them");
  EXPECT_EQ(with("/files/0/name", "../x"),
            "files[0].name: \"../x\" is no name of a file: 1 to 63 letters, digits and ._- , "
            "without folders");
  EXPECT_EQ(with("/files/0/name", "z"), "files[1].name: train.bin does not come behind the one before: sort files by name");
  EXPECT_EQ(with("/files/0/bytes", 0), "files[0].chunks: has 1, but 0 bytes are 0 chunks of 4194304");
  EXPECT_EQ(with("/files/0/bytes", -1), "files[0].bytes: -1 is out of range: 0 to 4398046511104");
  EXPECT_EQ(with("/files/0/chunks/0", "../../etc"), "files[0].chunks: \"../../etc\" is no SHA-256, which has 64 hex digits");
  EXPECT_EQ(with("/files/1/largest_id", 70000), "files[1]: 5 tokens with ids up to 70000 cannot be in 4194306 bytes");
}

TEST(Holders, MessagesComeBackFromTheirJson) {
  const HoldersRequest request{"w1", "i1", "10.0.0.1:5", "e0", {4, 2}, 3, "sha256//one"};
  EXPECT_EQ(holders_request_from_json(to_json(request)), request);
  const HoldersReply reply{{{"w2", "10.0.0.2:5", "80", "sha256//two"}}, {1, 2}, "secret"};
  EXPECT_EQ(holders_reply_from_json(to_json(reply)), reply);
}

TEST(Holders, WrongMessagesAreRefused) {
  EXPECT_THROW(holders_request_from_json({{"room", 65}}), std::invalid_argument);
  EXPECT_THROW(holders_request_from_json({{"first", Json::array({"x"})}}), std::invalid_argument);
  EXPECT_THROW(holders_reply_from_json({{"holders", {1}}}), std::invalid_argument);
}

TEST(ChunkBits, GoBothWaysForAnyNumberOfChunks) {
  for (size_t chunks : {1U, 3U, 4U, 5U, 64U, 65U}) {
    std::vector<bool> have(chunks);
    for (size_t i = 0; i < chunks; ++i) have[i] = i % 3 == 0;
    EXPECT_EQ(chunks_of_bits(chunk_bits(have), static_cast<int64_t>(chunks)), have) << chunks;
  }
  EXPECT_EQ(chunk_bits({true, false, false, false, true}), "88");
  EXPECT_FALSE(chunks_of_bits("8", 5));   // too short
  EXPECT_FALSE(chunks_of_bits("8g", 5));  // no digit
  EXPECT_FALSE(chunks_of_bits("84", 5));  // a bit behind the last chunk
}

}  // namespace
}  // namespace holdfast::rendezvous
