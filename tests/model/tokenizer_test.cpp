// Tokenizers: text in any language comes back byte for byte, and training says which vocabularies are possible.
#include "model/data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/data/byte_tokenizer.h"
#include "model/data/sentencepiece_tokenizer.h"
#include "model/data/utf8.h"
#include "tests/model/sample_text.h"
#include "tests/model/temporary_folder.h"

namespace holdfast::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::string> kTexts = {
    "",
    " ",
    "The quick brown fox.\n",
    "  leading, trailing  and   runs of spaces  ",
    "tabs\tand\ttabs\n\n\nthree new lines\r\nand a carriage return",
    "\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C\xEF\xBC\x81 \xE9\xBE\x98",    // Chinese, and a rare character
    "\xF0\x9F\x99\x82\xF0\x9F\x9A\x80 \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB e\xCC\x81",  // emoji, joined, combining
    "the library's own marks: \xE2\x96\x81 \xE2\x96\x85 \xE2\x81\x87 <unk> <s> <0x0A> <|endoftext|>",
    "\xEF\xBF\xBD \x01\x02\x7F control characters",
};

const std::string& trained_model() {
  static const std::string model = *train_sentencepiece({english_text(), chinese_text()}, 700);
  return model;
}

std::vector<std::unique_ptr<Tokenizer>> both_kinds() {
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.push_back(make_byte_tokenizer());
  all.push_back(*load_sentencepiece(trained_model(), "the model"));
  return all;
}

TEST(Tokenizer, TextComesBackByteForByte) {
  for (const auto& tokenizer : both_kinds()) {
    for (const std::string& text : kTexts) EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << tokenizer->kind();
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(english_text())), english_text());
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(chinese_text())), chinese_text());
  }
}

TEST(Tokenizer, IdsStayBelowTheVocabulary) {
  for (const auto& tokenizer : both_kinds()) {
    for (const std::string& text : kTexts) {
      for (const int32_t id : tokenizer->encode(text)) EXPECT_TRUE(id >= 0 && id < tokenizer->vocab_size());
    }
  }
}

TEST(Tokenizer, TrainedPiecesAreFewerThanBytes) {
  const auto tokenizer = *load_sentencepiece(trained_model(), "the model");
  EXPECT_EQ(tokenizer->vocab_size(), 700);
  EXPECT_LT(tokenizer->encode(english_text()).size(), english_text().size() / 2);
  EXPECT_LT(tokenizer->encode(chinese_text()).size(), chinese_text().size() / 2);
}

TEST(Tokenizer, TextCannotForgeTheEndOfADocument) {
  const auto tokenizer = *load_sentencepiece(trained_model(), "the model");
  EXPECT_THAT(tokenizer->encode("<|endoftext|></s>"), ::testing::Not(::testing::Contains(tokenizer->end_of_document())));
  EXPECT_EQ(tokenizer->decode({tokenizer->end_of_document()}), "");
}

TEST(Tokenizer, DecodesIdsThatAreNotTokensAndBytesThatAreNotCharacters) {
  for (const auto& tokenizer : both_kinds()) {
    const int32_t beyond = static_cast<int32_t>(tokenizer->vocab_size());
    EXPECT_EQ(tokenizer->decode({beyond, -1}), "\xEF\xBF\xBD\xEF\xBF\xBD") << tokenizer->kind();
  }
  EXPECT_EQ(make_byte_tokenizer()->decode({'a', 0xE4, 0xBD, 'b'}),
            "a\xEF\xBF\xBD\xEF\xBF\xBD"
            "b");
}

TEST(Tokenizer, AStreamShowsCharactersOnceTheyAreWhole) {
  const auto tokenizer = make_byte_tokenizer();
  TextStream stream(*tokenizer);
  EXPECT_EQ(stream.add('a'), "a");
  EXPECT_EQ(stream.add(0xE4), "");
  EXPECT_EQ(stream.add(0xBD), "");
  EXPECT_EQ(stream.add(0xA0), "\xE4\xBD\xA0");
  EXPECT_EQ(stream.add(0xF0), "");
  EXPECT_EQ(stream.add('b'),
            "\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(stream.add(0xE4), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Tokenizer, AStreamGivesTheSameTextAsDecode) {
  for (const auto& tokenizer : both_kinds()) {
    TextStream stream(*tokenizer);
    std::string text;
    for (const int32_t id : tokenizer->encode(kTexts[5] + kTexts[6])) text += stream.add(id);
    EXPECT_EQ(text + stream.finish(), kTexts[5] + kTexts[6]);
  }
}

TEST(Tokenizer, IsLoadedFromAFolderOrAFile) {
  const TemporaryFolder folder;
  folder.write("bpe/tokenizer.model", trained_model());
  folder.write("bytes/tokenizer.json", make_byte_tokenizer()->file_bytes());
  for (const char* path : {"bpe", "bpe/tokenizer.model"}) EXPECT_STREQ((*Tokenizer::load(folder.path(path)))->kind(), "bpe");
  for (const char* path : {"bytes", "bytes/tokenizer.json"})
    EXPECT_STREQ((*Tokenizer::load(folder.path(path)))->kind(), "bytes");
}

TEST(Tokenizer, RefusesFilesThatAreNotATokenizer) {
  const TemporaryFolder folder;
  EXPECT_THAT(Tokenizer::load(folder.path("absent")).error(), AllOf(HasSubstr("absent"), HasSubstr("no such file")));
  EXPECT_THAT(Tokenizer::load(folder.path()).error(), HasSubstr("neither tokenizer.model nor tokenizer.json"));
  EXPECT_THAT(Tokenizer::load(folder.write("a.model", "junk")).error(),
              AllOf(HasSubstr("a.model"), HasSubstr("not a SentencePiece")));
  EXPECT_THAT(Tokenizer::load(folder.write("a.json", "{}")).error(), AllOf(HasSubstr("a.json"), HasSubstr("not a tokenizer")));
  EXPECT_FALSE(Tokenizer::load(folder.write("b.json", "no JSON")));
}

TEST(TokenizerTraining, IsTheSameForTheSameText) {
  EXPECT_EQ(*train_sentencepiece({english_text(), chinese_text()}, 700), trained_model());
}

TEST(TokenizerTraining, SaysWhichVocabularyTheTextCanFill) {
  const auto too_large = train_sentencepiece({english_text()}, 60'000);
  ASSERT_FALSE(too_large);
  EXPECT_THAT(too_large.error(), AllOf(HasSubstr("vocab_size 60000"), HasSubstr("choose at most")));
  const size_t at = too_large.error().find("at most ") + 8;
  const int64_t advised = std::stoll(too_large.error().substr(at));
  const auto as_advised = train_sentencepiece({english_text()}, advised);
  EXPECT_TRUE(as_advised) << as_advised.error();
}

TEST(TokenizerTraining, SaysWhenTheVocabularyIsTooSmall) {
  EXPECT_THAT(train_sentencepiece({english_text()}, 258).error(),
              AllOf(HasSubstr("vocab_size 258"), HasSubstr("259 to 65536")));
  EXPECT_FALSE(train_sentencepiece({english_text()}, 65537));
  const auto characters = train_sentencepiece({chinese_text()}, 260);
  ASSERT_FALSE(characters);
  EXPECT_THAT(characters.error(), AllOf(HasSubstr("vocab_size 260"), HasSubstr("choose at least")));
  EXPECT_THAT(train_sentencepiece({"\n\n"}, 300).error(), HasSubstr("no text"));
}

TEST(Utf8, KnowsTheEdgesOfTheEncoding) {
  EXPECT_EQ(first_invalid_utf8("plain \xE4\xBD\xA0 \xF4\x8F\xBF\xBF"), std::string::npos);
  EXPECT_EQ(first_invalid_utf8("ab\x80"), 2U);            // a continuation byte alone
  EXPECT_EQ(first_invalid_utf8("a\xC0\xAF"), 1U);         // overlong
  EXPECT_EQ(first_invalid_utf8("\xE0\x80\xAF"), 0U);      // overlong
  EXPECT_EQ(first_invalid_utf8("\xED\xA0\x80"), 0U);      // a surrogate
  EXPECT_EQ(first_invalid_utf8("\xF4\x90\x80\x80"), 0U);  // above U+10FFFF
  EXPECT_EQ(first_invalid_utf8("abc\xE4\xBD"), 3U);       // cut short
  EXPECT_TRUE(is_utf8_prefix("\xE4\xBD"));
  EXPECT_FALSE(is_utf8_prefix("\xE4\xBD\xA0"));
  EXPECT_FALSE(is_utf8_prefix("\xE0\x80"));
}

}  // namespace
}  // namespace holdfast::model
