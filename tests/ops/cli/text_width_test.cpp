// Text on a terminal: its width, its cut to a width, and control characters that must not reach the terminal.
#include "ops/cli/terminal/text_width.h"

#include <gtest/gtest.h>

namespace holdfast::ops {
namespace {

TEST(TextWidth, WideCharactersTakeTwoColumnsAndMarksNone) {
  EXPECT_EQ(columns("abc"), 3U);
  EXPECT_EQ(columns("训练"), 4U);
  EXPECT_EQ(columns("é…"), 2U);
  EXPECT_EQ(columns("e\u0301"), 1U) << "a combining accent";
  EXPECT_EQ(columns("日本語 テスト"), 13U);
  EXPECT_EQ(columns("한국어"), 6U);
  EXPECT_EQ(columns("🚀"), 2U);
  EXPECT_EQ(columns("ｱ"), 1U) << "half-width katakana";
  EXPECT_EQ(columns("\xff\xe4"), 2U) << "broken text has a width, too";
  EXPECT_EQ(columns("\xe4"
                    "ab"),
            3U)
      << "what follows a broken character is not swallowed";
}

TEST(TextWidth, ACutTextEndsInAnEllipsis) {
  EXPECT_EQ(cut_to("abcdef", 4), "abc…");
  EXPECT_EQ(cut_to("训练任务", 5), "训练…");
  EXPECT_EQ(cut_to("训练任务", 4), "训…") << "half a character is none";
  EXPECT_EQ(cut_to("abc", 3), "abc");
  EXPECT_EQ(cut_to("abc", 0), "");
}

TEST(TextWidth, Pads) {
  EXPECT_EQ(padded("训", 4), "训  ");
  EXPECT_EQ(padded("7", 3, true), "  7");
  EXPECT_EQ(padded("long", 2), "long");
}

TEST(TextWidth, ControlCharactersAreShownNotObeyed) {
  EXPECT_EQ(printable("a\033[31mred\nb\tc\r"), "a^[[31mred b c ");
  EXPECT_EQ(printable("\x01\x7f"), "^A^?");
  EXPECT_EQ(printable("\u009b31m"), "?31m") << "the one-character form of escape and bracket";
  EXPECT_EQ(printable("é训"), "é训");
  EXPECT_EQ(printable("\x9b\x31m"), "?1m") << "the same of an older terminal";
}

TEST(TextWidth, WrapsAtWords) {
  EXPECT_EQ(wrapped("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("a incomprehensible b", 6), (std::vector<std::string>{"a", "incomprehensible", "b"}));
  EXPECT_TRUE(wrapped("", 10).empty());
}

}  // namespace
}  // namespace holdfast::ops
