// GPT-2's byte-level BPE: its words, its merges, and the files that it comes in. (Beside OpenAI's own vocabulary: bench/run
// tokenizer.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "model/data/byte_pairs/encoder.h"
#include "model/data/byte_pairs/tokenizer.h"
#include "model/data/byte_pairs/visible_bytes.h"
#include "model/data/byte_pairs/vocabulary_files.h"
#include "model/data/byte_pairs/words.h"
#include "tests/model/sample_text.h"
#include "tests/model/temporary_folder.h"

namespace holdfast::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t length = word_length(text);
    words.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return words;
}

using Pair = std::pair<int32_t, int32_t>;

void merge_everywhere(std::vector<int32_t>& ids, Pair pair, int32_t merged) {
  std::vector<int32_t> after;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool is_pair = i + 1 < ids.size() && Pair(ids[i], ids[i + 1]) == pair;
    after.push_back(is_pair ? merged : ids[i]);
    i += is_pair ? 1 : 0;
  }
  ids = std::move(after);
}

// A vocabulary of 256 bytes, in an order of its own, `merges` merges learned from `text`, and the end of text.
BytePairVocabulary learn(const std::string& text, int merges) {
  BytePairVocabulary vocabulary;
  for (int i = 0; i < 256; ++i) vocabulary.tokens.emplace_back(1, static_cast<char>((i + 33) % 256));
  std::vector<std::vector<int32_t>> words;
  for (const std::string& word : words_of(text)) {
    words.emplace_back();
    for (const char byte : word) words.back().push_back((static_cast<unsigned char>(byte) + 256 - 33) % 256);
  }
  for (int i = 0; i < merges; ++i) {
    std::map<Pair, int> counts;
    for (const auto& word : words) {
      for (size_t at = 0; at + 1 < word.size(); ++at) ++counts[{word[at], word[at + 1]}];
    }
    const auto most = std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
    const auto [left, right] = most->first;
    const auto merged = static_cast<int32_t>(vocabulary.tokens.size());
    vocabulary.tokens.push_back(vocabulary.tokens[static_cast<size_t>(left)] + vocabulary.tokens[static_cast<size_t>(right)]);
    vocabulary.merges.push_back({left, right, merged});
    for (auto& word : words) merge_everywhere(word, most->first, merged);
  }
  vocabulary.end_of_text = static_cast<int32_t>(vocabulary.tokens.size());
  vocabulary.special_ids = {vocabulary.end_of_text};
  vocabulary.tokens.emplace_back(kEndOfText);
  return vocabulary;
}

const BytePairVocabulary& learned() {
  static const BytePairVocabulary vocabulary = learn(english_text().substr(0, 20'000) + chinese_text().substr(0, 3'000), 400);
  return vocabulary;
}

// The algorithm as its paper has it: one merge after another, each wherever its pair stands.
std::vector<int32_t> by_the_book(const BytePairVocabulary& vocabulary, const std::string& word) {
  std::vector<int32_t> ids;
  for (const char byte : word) ids.push_back((static_cast<unsigned char>(byte) + 256 - 33) % 256);
  for (const auto& merge : vocabulary.merges) merge_everywhere(ids, {merge.left, merge.right}, merge.merged);
  return ids;
}

std::string lines_of_merges(const BytePairVocabulary& vocabulary) {
  std::string lines = "#version: 0.2\n";
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) lines += merge_text(vocabulary, i) + "\n";
  return lines;
}

std::string ids_json(const BytePairVocabulary& vocabulary) {
  return nlohmann::json::parse(to_tokenizer_json(vocabulary))["model"]["vocab"].dump();
}

TEST(BytePairWords, AreThoseOfGpt2sPattern) {
  EXPECT_THAT(words_of("Don't stop, we'll see: it's 42nd!"),
              ElementsAre("Don", "'t", " stop", ",", " we", "'ll", " see", ":", " it", "'s", " 42", "nd", "!"));
  EXPECT_THAT(words_of("'S 'tis '' 's"), ElementsAre("'", "S", " '", "tis", " ''", " '", "s"));
  EXPECT_THAT(words_of("a  b\n\n  c \n"), ElementsAre("a", " ", " b", "\n\n ", " c", " \n"));
  EXPECT_THAT(words_of("\n\nx\ty   "), ElementsAre("\n", "\n", "x", "\t", "y", "   "));
  EXPECT_THAT(
      words_of("e\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE2\x85\xA7\xC2\xBD"),  // a combining accent is no letter
      ElementsAre("e", "\xCC\x81", " \xE4\xBD\xA0\xE5\xA5\xBD", "\xEF\xBC\x8C", "\xE2\x85\xA7\xC2\xBD"));
  EXPECT_THAT(words_of("a\xC2\xA0\xE3\x80\x80 b\xC2\x85"), ElementsAre("a", "\xC2\xA0\xE3\x80\x80", " b", "\xC2\x85"));
}

TEST(BytePairWords, TakeBytesThatAreNoTextAsTheyCome) {
  EXPECT_THAT(words_of("a\xFF\xE4\xBD"), ElementsAre("a", "\xFF\xE4\xBD"));
}

TEST(BytePairEncoder, MergesAsTheBookDoesWordsShortAndLong) {
  const BytePairVocabulary& vocabulary = learned();
  const BytePairEncoder encoder(vocabulary);
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    std::string word;
    const size_t tokens = 1 + random() % (round % 10 == 0 ? 200 : 12);
    for (size_t i = 0; i < tokens; ++i) word += vocabulary.tokens[random() % (vocabulary.tokens.size() - 1)];
    std::vector<int32_t> ids;
    encoder.append(word, ids);
    EXPECT_EQ(ids, by_the_book(vocabulary, word)) << visible_text(word);
  }
}

TEST(BytePairTokenizer, TakesAMegabyteWithoutASpaceInItsStride) {
  const auto tokenizer = make_byte_pair_tokenizer(learned());
  const std::string text(1 << 20, 'e');  // where a merge costs a look at the whole word this takes an hour
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(BytePairTokenizer, TextComesBackByteForByteAndForgesNoEnd) {
  const auto tokenizer = make_byte_pair_tokenizer(learned());
  const std::string forged = "a<|endoftext|>b";
  for (const std::string& text : {english_text(), chinese_text(), forged, std::string()}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_EQ(std::ranges::count(tokenizer->encode(forged), tokenizer->end_of_document()), 0);
  EXPECT_EQ(tokenizer->decode({tokenizer->end_of_document()}), "");
  EXPECT_EQ(tokenizer->decode({static_cast<int32_t>(tokenizer->vocab_size()), -1}), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_LT(tokenizer->encode(english_text()).size(), english_text().size() / 2);
}

TEST(VisibleBytes, ComeBackAndNothingElseDoes) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    EXPECT_EQ(bytes_of_visible(visible_text(one)), one);
  }
  EXPECT_EQ(visible_text(" the"), "\xC4\xA0the");
  for (const char* text : {" ", "\xC5\x84", "\xE4\xBD\xA0", "\xC4", "\xFF"}) EXPECT_FALSE(bytes_of_visible(text)) << text;
  EXPECT_EQ(bytes_of_base64("aGFuZA=="), "hand");
  EXPECT_EQ(bytes_of_base64("YWJj"), "abc");
  for (const char* text : {"YWJ", "YW J", "Y===", "YWJj\n"}) EXPECT_FALSE(bytes_of_base64(text)) << text;
}

class BytePairFiles : public ::testing::Test {
 protected:
  std::string refusal_of(const std::string& name, const std::string& content) {
    folder_.write(name, content);
    const auto tokenizer = Tokenizer::load(folder_.path(name));
    return tokenizer ? "loaded" : tokenizer.error();
  }
  nlohmann::json described() const { return nlohmann::json::parse(to_tokenizer_json(learned())); }
  TemporaryFolder folder_;
};

TEST_F(BytePairFiles, OfEveryKindMakeTheSameTokenizer) {
  std::string ranks;
  for (size_t id = 0; id + 1 < learned().tokens.size(); ++id) {
    static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::string& token = learned().tokens[id];
    for (size_t at = 0; at < token.size(); at += 3) {
      uint32_t bits = 0;
      for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (at + i < token.size() ? static_cast<unsigned char>(token[at + i]) : 0);
      for (size_t i = 0; i < 4; ++i) ranks += at + i <= token.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
    }
    ranks += " " + std::to_string(id) + "\n";
  }
  folder_.write("ranks/r.tiktoken", ranks);
  folder_.write("openai/encoder.json", ids_json(learned()));
  folder_.write("openai/vocab.bpe", lines_of_merges(learned()));
  folder_.write("face/vocab.json", ids_json(learned()));
  folder_.write("face/merges.txt", lines_of_merges(learned()));
  folder_.write("fast/tokenizer.json", to_tokenizer_json(learned()));
  auto pairs = described();
  for (auto& merge : pairs["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  folder_.write("newer/tokenizer.json", pairs.dump());
  for (const std::string path : {"ranks", "ranks/r.tiktoken", "openai", "face", "fast", "fast/tokenizer.json", "newer"}) {
    for (const char* prefix : {"", "gpt2:"}) {
      const auto tokenizer = Tokenizer::load(prefix + folder_.path(path));
      ASSERT_TRUE(tokenizer) << tokenizer.error();
      EXPECT_EQ((*tokenizer)->file_bytes(), to_tokenizer_json(learned())) << path;
      EXPECT_STREQ((*tokenizer)->kind(), "gpt2");
      EXPECT_EQ((*tokenizer)->end_of_document(), learned().end_of_text);
    }
  }
}

// The file that is kept beside a job's data, and brought to the service, is what every other program reads.
TEST_F(BytePairFiles, ThatAreKeptAreReadBackWhateverAddedTokensAreCalled) {
  auto changed = described();
  const auto first = static_cast<int32_t>(learned().tokens.size());
  const std::vector<std::string> names = {"<|im start|>", "<\ttab>", "<\xE4\xBD\xA0\xE5\xA5\xBD>"};
  for (size_t i = 0; i < names.size(); ++i) {
    const auto id = first + static_cast<int32_t>(i);
    changed["added_tokens"].push_back({{"id", id}, {"content", names[i]}});
    if (i > 0) changed["model"]["vocab"][names[i]] = id;  // Hugging Face's files have them in either way
  }
  folder_.write("source/tokenizer.json", changed.dump());
  const auto source = Tokenizer::load(folder_.path("source"));
  ASSERT_TRUE(source) << source.error();
  folder_.write("kept/tokenizer.json", (*source)->file_bytes());
  const auto kept = Tokenizer::load(folder_.path("kept"));
  ASSERT_TRUE(kept) << kept.error();
  EXPECT_EQ((*kept)->file_bytes(), (*source)->file_bytes());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ((*kept)->token_bytes(first + static_cast<int32_t>(i)), names[i]);
  EXPECT_EQ((*kept)->decode((*kept)->encode(names[0])), names[0]) << "text never becomes one";
}

TEST_F(BytePairFiles, ThatAreNoSuchVocabularyAreRefusedWithTheFileAndThePlace) {
  const auto refusal_of_json = [&](const auto& change) {
    auto changed = described();
    change(changed);
    return refusal_of("tokenizer.json", changed.dump());
  };
  EXPECT_THAT(refusal_of("tokenizer.json", "[1, 2"), HasSubstr("is not a tokenizer that is known here"));
  EXPECT_THAT(refusal_of_json([](auto& json) { json["model"]["type"] = "Unigram"; }),
              AllOf(HasSubstr("tokenizer.json: is no byte pair vocabulary"), HasSubstr("\"type\": \"BPE\"")));
  EXPECT_THAT(refusal_of_json([](auto& json) {
                json["pre_tokenizer"] = {{"type", "Whitespace"}};
              }),
              AllOf(HasSubstr("Whitespace"), HasSubstr("expected GPT-2's: ByteLevel")));
  EXPECT_THAT(refusal_of_json([](auto& json) { json["normalizer"] = {{"type", "NFC"}}; }), HasSubstr("has a normalizer"));
  EXPECT_THAT(refusal_of_json([](auto& json) { json["model"]["vocab"].erase("!"); }), HasSubstr("token 0 is empty"));
  EXPECT_THAT(refusal_of_json([](auto& json) { json["model"]["vocab"]["!"] = 1; }),
              AllOf(HasSubstr("have one id, 1"), HasSubstr("!")));
  EXPECT_THAT(refusal_of_json([](auto& json) { json["model"]["vocab"]["!"] = int64_t{1} << 40; }),
              HasSubstr("expected a number from 0"));
  EXPECT_THAT(refusal_of_json([](auto& json) { json["model"]["vocab"]["\xE4\xBD\xA0"] = 9; }), HasSubstr("stands for no byte"));
  EXPECT_THAT(refusal_of_json([](auto& json) { json["model"]["merges"][3] = "a b c"; }),
              AllOf(HasSubstr("merge 3"), HasSubstr("a b c")));
  EXPECT_THAT(refusal_of_json([](auto& json) { json["model"]["merges"][3] = "zzzz q"; }),
              AllOf(HasSubstr("merge 3"), HasSubstr("zzzz")));
  EXPECT_THAT(refusal_of_json([](auto& json) { json["added_tokens"][0].erase("id"); }), HasSubstr("added_tokens"));
  EXPECT_THAT(refusal_of_json([](auto& json) {
                json["added_tokens"].push_back({{"id", 2}, {"content", "#"}});  // text would lose it
              }),
              HasSubstr("no token stands for the byte 0x23 in text"));
  const std::string deep = R"({"type": )" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + R"(, "model": {}})";
  EXPECT_THAT(refusal_of("tokenizer.json", deep), HasSubstr("is not a tokenizer that is known here"));
  EXPECT_THAT(refusal_of("r.tiktoken", "IQ== 0\nIg== one\n"), AllOf(HasSubstr("r.tiktoken: line 2"), HasSubstr("in base64")));
  EXPECT_THAT(refusal_of("r.tiktoken", "IQ== 0\n"), HasSubstr("no token stands for the byte 0x00"));
  EXPECT_THAT(refusal_of("folder/readme.txt", "x"), HasSubstr("SentencePiece"));
  const auto empty = Tokenizer::load("gpt2:" + folder_.path("folder"));
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error(),
              AllOf(HasSubstr("neither tokenizer.model nor tokenizer.json"), HasSubstr("encoder.json with vocab.bpe")));
}

}  // namespace
}  // namespace holdfast::model
