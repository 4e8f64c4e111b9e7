// Characters of UTF-8 text.
#include "rendezvous/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

#include "rendezvous/text/plain_text.h"
#include "rendezvous/text/text_bounds.h"

namespace holdfast::rendezvous {
namespace {

TEST(Utf8, ACharacterIsDecodedWithItsLength) {
  const std::string text = "aé训🚀";
  size_t at = 0;
  for (const char32_t code : {U'a', U'é', U'训', U'🚀'}) {
    const Character character = character_at(text, at);
    EXPECT_TRUE(character.valid);
    EXPECT_EQ(character.code, code);
    at += character.bytes;
  }
  EXPECT_EQ(at, text.size());
}

TEST(Utf8, AByteThatBelongsToNoCharacterStandsAlone) {
  for (const char* broken : {"\x80", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE4\xBD", "\xFF"}) {
    const Character character = character_at(broken, 0);
    EXPECT_FALSE(character.valid);
    EXPECT_EQ(character.bytes, 1U);
    EXPECT_EQ(character.code, static_cast<unsigned char>(*broken));
  }
}

size_t columns_of(const char* text) {
  return columns_of(character_at(text, 0));
}

TEST(Utf8, WideCharactersTakeTwoColumnsAndJoiningMarksNone) {
  EXPECT_EQ(columns_of("a"), 1U);
  EXPECT_EQ(columns_of("训"), 2U);
  EXPECT_EQ(columns_of("🚀"), 2U);
  EXPECT_EQ(columns_of("\u0301"), 0U) << "a combining accent";
  EXPECT_EQ(columns_of("\u1161"), 0U) << "the vowel of a Korean syllable";
  EXPECT_EQ(columns_of("\u093E"), 1U) << "a spacing mark of Devanagari";
  EXPECT_EQ(columns_of("\xFF"), 1U) << "no character";
}

TEST(PlainText, ControlCharactersAreFoundInBothTheirRanges) {
  for (const char* text : {"\n", "a\x1b[0m", "\x7f", "é\u0085", "\u009b"}) EXPECT_TRUE(has_control_characters(text));
  for (const char* text : {"", "plain", "é训🚀\u00a0", "\x80\x9f"}) EXPECT_FALSE(has_control_characters(text));
  EXPECT_TRUE(has_control_characters(std::string(1, '\0')));
}

TEST(TextBounds, ATextIsCutBeforeTheCharacterThatDoesNotFit) {
  EXPECT_EQ(shortened("训练", 6), "训练");
  EXPECT_EQ(shortened("训练", 5), "训 … (3 more bytes were cut off)");
  EXPECT_EQ(shortened("abcd", 2), "ab … (2 more bytes were cut off)");
}

}  // namespace
}  // namespace holdfast::rendezvous
