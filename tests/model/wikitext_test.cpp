// MediaWiki's markup taken off: running text stays, and hostile nesting costs no time.
#include "model/data/text/wikitext.h"

#include <gtest/gtest.h>

namespace holdfast::model {
namespace {

std::string plain(const std::string& markup) {
  return plain_text_of_wikitext(markup);
}

TEST(Wikitext, LinksAndEmphasisLeaveTheirWords) {
  EXPECT_EQ(plain("'''Bold''', ''it'', '''''both''''' and it's [[plain]], [[page|shown]], [[a#b|]]."),
            "Bold, it, both and it's plain, shown, .\n");
  EXPECT_EQ(plain("[https://x.org words here] [https://x.org] and [[:Category:C]]"), "words here  and Category:C\n");
}

TEST(Wikitext, HeadingsAndListsAreLines) {
  EXPECT_EQ(plain("== Early life ==\n* one\n## two\n: three\n----\n__TOC__\nend"), "Early life\none\ntwo\nthree\n\nend\n");
}

TEST(Wikitext, TemplatesTablesFilesAndReferencesAreGone) {
  EXPECT_EQ(plain("{{Infobox|a={{b|c}}|d=[[e]]}}\nA (born {{age|1}}) B<ref name=\"x\">cite {{y}}</ref>, C<ref name=\"x\"/>."),
            "A (born ) B, C.\n");
  EXPECT_EQ(plain("A ({{lang|x}}) is b."), "A is b.\n");
  EXPECT_EQ(plain("before\n{| class=\"w\"\n|-\n| a {{x|}} || b\n|}\nafter"), "before\n\nafter\n");
  EXPECT_EQ(plain("[[File:A.jpg|thumb|a [[link|caption]]]]text[[Category:X]][[de:Seite]]"), "text\n");
  EXPECT_EQ(
      plain("\xE6\xAD\xA3[[\xE6\x96\x87\xE4\xBB\xB6:A.jpg|\xE5\x9B\xBE]]\xE6\x96\x87[[\xE5\x88\x86\xE7\xB1\xBB:\xE7\x94\xB2]]"),
      "\xE6\xAD\xA3\xE6\x96\x87\n");
}

TEST(Wikitext, TagsCommentsAndEntitiesAreCharacters) {
  EXPECT_EQ(
      plain("a<!-- no -->b<br/>c <span style=\"x\">d</span> <math>\\int</math> &nbsp;&lt;e&gt; &#233;&#x4F60; &unknown; 1 < 2"),
      "ab\nc d   <e> \xC3\xA9\xE4\xBD\xA0 &unknown; 1 < 2\n");
}

TEST(Wikitext, WhatIsNeverClosedIsText) {
  EXPECT_EQ(plain("a {{b [[c ]] d"), "a {{b c  d\n");
  EXPECT_EQ(plain("a }} b ]] c |} <!-- d"), "a }} b ]] c |} <!-- d\n");
  EXPECT_EQ(plain("{{a [[b}} c"), "c\n");
  EXPECT_EQ(plain("<ref>a"), "a\n");
  EXPECT_EQ(plain(""), "");
}

TEST(Wikitext, HostileNestingTakesLinearTime) {
  for (const std::string piece : {"{{", "[[", "{{a}}[[", "<ref>", "<!--", "'", "(", "[http://", "{|\n", "<ref", "&", "=="}) {
    std::string markup;
    while (markup.size() < (1 << 20)) markup += piece;
    plain(markup);  // where each piece cost a look at the rest this would take hours
  }
  std::string links, words(1 << 19, 'x'), ends;
  for (int i = 0; i < (1 << 18); ++i) links += "[[", ends += "]]";
  EXPECT_GT(plain(links + words + ends).size(), words.size());
  EXPECT_EQ(plain("<Ref>a</ref>b"), "b\n");
}

}  // namespace
}  // namespace holdfast::model
