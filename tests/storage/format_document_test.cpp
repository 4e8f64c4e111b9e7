// storage/FORMAT.md against the code: the code reads the document's worked examples, and writes the same bytes.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "storage/manifest.h"
#include "tests/storage/checks.h"
#include "tests/storage/memory_store.h"

namespace holdfast::storage::testing {
namespace {

// The text between ```language and ``` in the document.
std::string example(const std::string& language) {
  std::ifstream file(HOLDFAST_FORMAT_DOCUMENT);
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str(), opening = "```" + language + "\n";
  const size_t begin = document.find(opening), end = document.find("```", begin + opening.size());
  EXPECT_NE(begin, std::string::npos) << HOLDFAST_FORMAT_DOCUMENT << " has no example of a " << language;
  return document.substr(begin + opening.size(), end - begin - opening.size());
}

// Reads the bytes of a shard from lines of the form "offset: bytes in hex  meaning".
Bytes shard_of(const std::string& text) {
  Bytes bytes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(std::stoul(line), bytes.size()) << "the offset of: " << line;
    std::istringstream hex(line.substr(line.find(':') + 1, 24));
    for (std::string byte; hex >> byte;) bytes.push_back(static_cast<std::byte>(std::stoul(byte, nullptr, 16)));
  }
  return bytes;
}

struct Example {
  std::vector<float> a = std::vector<float>(64, 1.0F);
  std::vector<uint16_t> b = {0x3f80, 0x4000};

  std::vector<ConstTensor> tensors() const {
    return {{"a", "float32", {8, 8}, std::as_bytes(std::span(a))}, {"b", "bfloat16", {2}, std::as_bytes(std::span(b))}};
  }
  std::vector<MutableTensor> writable() {
    return {{"a", "float32", {8, 8}, std::as_writable_bytes(std::span(a))},
            {"b", "bfloat16", {2}, std::as_writable_bytes(std::span(b))}};
  }
};

Result<Manifest> documented_manifest() {
  const std::string text = example("manifest");
  return parse_manifest(std::as_bytes(std::span(text)), "the document's manifest", 60);
}

TEST(FormatDocument, ItsCheckpointIsRead) {
  MemoryStore store;
  const auto manifest = documented_manifest();
  ASSERT_TRUE(ok(manifest));
  const std::string text = example("manifest");
  ASSERT_TRUE(ok(store.put(manifest_key(60), std::as_bytes(std::span(text)))));
  ASSERT_TRUE(ok(store.put(manifest->shards.at(0).key, shard_of(example("shard")))));
  Example found;
  found.a.assign(64, 0);
  found.b.assign(2, 0);
  const auto writable = found.writable();
  ASSERT_TRUE(ok(read_checkpoint(store, 60, writable)));
  EXPECT_EQ(found.a, Example().a);
  EXPECT_EQ(found.b, Example().b);
}

TEST(FormatDocument, ItsCheckpointIsWhatIsWritten) {
  MemoryStore store;
  const auto documented = documented_manifest();
  ASSERT_TRUE(ok(documented));
  const auto written = write_checkpoint(store, *documented, Example().tensors());
  ASSERT_TRUE(ok(written));
  EXPECT_EQ(written->state_hash, documented->state_hash);
  EXPECT_EQ(store.get(written->shards.at(0).key).value(), shard_of(example("shard")));
  Manifest same_program = *written;
  same_program.written_by = documented->written_by;
  EXPECT_EQ(format_manifest(same_program).value(), example("manifest"));
}

std::string document() {
  std::ifstream file(HOLDFAST_FORMAT_DOCUMENT);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(FormatDocument, NamesEveryFieldOfAPart) {
  const ShardInfo shard{"step-0000000060/shard-0000-0.hfs", 1, 1, "", {{0, 1}}};
  const auto json = nlohmann::json::parse(format_part({60, 3, "", {1, 2}, {shard}, {{}}}));
  for (const auto& [field, value] : json.items()) EXPECT_THAT(document(), ::testing::HasSubstr("`" + field + "`"));
  for (const auto& [field, value] : json["shards"][0].items()) EXPECT_THAT(document(), ::testing::HasSubstr("`" + field + "`"));
}

TEST(FormatDocument, NamesEveryFieldOfAManifest) {
  const auto json = nlohmann::json::parse(example("manifest"));
  for (const auto& [field, value] : json.items()) EXPECT_THAT(document(), ::testing::HasSubstr("| `" + field + "` |"));
  for (const char* list : {"tensors", "shards"}) {
    for (const auto& [field, value] : json[list][0].items()) EXPECT_THAT(document(), ::testing::HasSubstr("`" + field + "`"));
  }
}

}  // namespace
}  // namespace holdfast::storage::testing
