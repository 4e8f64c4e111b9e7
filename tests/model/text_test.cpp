// Texts out of files of every kind that is read, and what is said of the ones that are not.
#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <filesystem>

#include "model/data/text/archive_reader.h"
#include "model/data/text/checked_text.h"
#include "model/data/text/input_files.h"
#include "model/data/text/records.h"
#include "tests/model/prepared_data.h"
#include "tests/model/temporary_folder.h"

namespace holdfast::model {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct File {
  std::string name, content;
};

// `files` in an archive of libarchive's name for the format ("ustar", "zip", "raw"), packed by a filter of its name.
std::string packed(const std::string& path, const std::string& format, const std::string& filter,
                   const std::vector<File>& files) {
  archive* writer = archive_write_new();
  archive_write_set_format_by_name(writer, format.c_str());
  if (filter != "none") archive_write_add_filter_by_name(writer, filter.c_str());
  archive_write_open_filename(writer, path.c_str());
  for (const File& file : files) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, file.name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(file.content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_write_header(writer, entry);
    archive_write_data(writer, file.content.data(), file.content.size());
    archive_entry_free(entry);
  }
  archive_write_close(writer);
  archive_write_free(writer);
  return path;
}

class Texts : public ::testing::Test {
 protected:
  // Each text of the file, and "! " with the error at the end, if there is one.
  std::vector<std::string> of(const std::string& path, const RecordOptions& options = {}) {
    std::vector<std::string> texts;
    const auto failed = [&](const std::string& why) {
      texts.push_back("! " + why);
      return texts;
    };
    ArchiveReader archive(path);
    for (;;) {
      const auto name = archive.next_file();
      if (!name) return failed(name.error());
      if (!*name) return texts;
      names_.push_back(**name);
      CheckedText text(archive, **name);
      auto records = read_records(text, options);
      if (!records) return failed(records.error());
      for (;;) {
        const auto part = (*records)->next();
        if (!part) return failed(part.error());
        if (!*part) break;
        if ((*part)->begins) texts.emplace_back();
        texts.back() += (*part)->text;
      }
    }
  }
  std::string path(const std::string& name) { return folder_.path(name); }
  std::vector<std::string> of_file(const std::string& name, const std::string& content, const std::string& field = "text") {
    return of(folder_.write(name, content), {.field = field});
  }
  TemporaryFolder folder_;
  std::vector<std::string> names_;
};

TEST_F(Texts, OfAPlainFileAreItsTextWithoutAByteOrderMark) {
  EXPECT_THAT(of_file("a", "\xEF\xBB\xBFtext"), ElementsAre("text"));
  EXPECT_THAT(of_file("b", ""), IsEmpty());
  std::string large;
  while (large.size() < 1'000'000) large += "\xE4\xBD\xA0 a\xC3\xA9";  // characters lie across every kind of seam
  EXPECT_THAT(of_file("c", large), ElementsAre(large));
  EXPECT_THAT(of(path("c"), {.field = "text", .whole = true}), ElementsAre(large));
}

TEST_F(Texts, AreTheSameHoweverAFileIsPacked) {
  for (const char* filter : {"gzip", "bzip2", "xz", "zstd"}) {
    EXPECT_THAT(of(packed(path("a"), "raw", filter, {{"a", "some text"}})), ElementsAre("some text")) << filter;
  }
}

TEST_F(Texts, OfAnArchiveComeInItsOrderAndThoseOfArchivesInItToo) {
  packed(path("inner.jsonl.gz"), "raw", "gzip", {{"x", "{\"text\": \"deep\"}\n"}});
  packed(path("inner.zip"), "zip", "none", {{"in/z.txt", "zipped"}});
  const std::vector<File> files = {{"b.txt", "first"},
                                   {"a/.hidden", "no"},
                                   {".git/config", "no"},
                                   {"a/c.csv", "text\nsecond\n"},
                                   {"./d.txt", "third"},
                                   {"i.jsonl.gz", folder_.read("inner.jsonl.gz")},
                                   {"i.zip", folder_.read("inner.zip")},
                                   {"e.txt", "last"}};
  for (const auto& [name, format, filter] :
       {std::tuple("t.tar", "ustar", "none"), std::tuple("t.tar.xz", "ustar", "xz"), std::tuple("t.zip", "zip", "none")}) {
    names_.clear();
    EXPECT_THAT(of(packed(path(name), format, filter, files)),
                ElementsAre("first", "second", "third", "deep", "zipped", "last"))
        << name;
    EXPECT_THAT(names_[3], HasSubstr(": i.jsonl"));
    EXPECT_THAT(names_[4], HasSubstr(": i.zip: in/z.txt"));
  }
}

TEST_F(Texts, OfAZipWithANameInAnyLanguageAreOfItsKind) {
  ASSERT_NE(std::setlocale(LC_CTYPE, "C.UTF-8"), nullptr);  // for the one that packs it
  packed(path("t.zip"), "zip", "none", {{"\xE6\x95\xB0.jsonl", "{\"text\": \"one\"}"}});
  std::setlocale(LC_CTYPE, "C");
  EXPECT_THAT(of(path("t.zip")), ElementsAre("one"));
}

TEST_F(Texts, OfJsonLinesAreOneALine) {
  EXPECT_THAT(of_file("a.jsonl", "{\"text\": \"one\\nline\", \"id\": 1}\r\n\n{\"text\": \"\"}\n{\"id\": 2, \"text\": \"two\"}"),
              ElementsAre("one\nline", "two"));
  EXPECT_THAT(of_file("b.ndjson", "{\"body\": \"b\"}", "body"), ElementsAre("b"));
}

TEST_F(Texts, OfRowsAreTheirField) {
  EXPECT_THAT(of_file("a.csv", "id,text\r\n1,plain\r\n2,\"quoted, \"\"twice\"\"\nand over lines\"\r\n\r\n3,\r\n4,a\"b\n"),
              ElementsAre("plain", "quoted, \"twice\"\nand over lines", "a\"b"));
  EXPECT_THAT(of_file("a.tsv", "body\tid\n\"as it is\t1\nlast\t2", "body"), ElementsAre("\"as it is", "last"));
}

TEST_F(Texts, OfADumpOfWikipediaAreItsArticles) {
  const auto page = [](const std::string& title, int space, const std::string& text, const std::string& more = "") {
    return "<page><title>" + title + "</title><ns>" + std::to_string(space) + "</ns>" + more + "<revision><text>" + text +
           "</text></revision></page>";
  };
  const std::string dump = "<mediawiki xml:lang=\"en\"><siteinfo><sitename>W</sitename></siteinfo>\n" +
                           page("A &amp; B", 0, "'''A''' is [[b|c]] &amp;ndash; {{x}}d.") + page("Talk:A", 1, "talk") +
                           page("R", 0, "#REDIRECT [[A]]", "<redirect title=\"A\"/>") + page("C", 0, "Second.") +
                           "</mediawiki>";
  EXPECT_THAT(of_file("dump.xml", dump), ElementsAre("A & B\n\nA is c \xE2\x80\x93 d.\n", "C\n\nSecond.\n"));
  EXPECT_THAT(of(packed(path("wiki.xml.bz2"), "raw", "bzip2", {{"x", dump}})), ::testing::SizeIs(2));
  EXPECT_THAT(of_file("page.xml", "<html>no dump</html>"), ElementsAre("<html>no dump</html>"));
  EXPECT_THAT(of_file("broken.xml", dump.substr(0, dump.size() - 30)).back(),
              AllOf(HasSubstr("broken.xml: line 2"), HasSubstr("no dump of Wikipedia from here on")));
}

TEST_F(Texts, ThatAreNotThereAreSaidWithTheLineAndTheFields) {
  EXPECT_THAT(
      of_file("a.jsonl", "{\"text\": \"good\"}\n{\"txt\": \"x\", \"id\": 1}\n"),
      ElementsAre("good", AllOf(HasSubstr("a.jsonl: line 2 has no \"text\"; it has \"id\", \"txt\""), HasSubstr("--field"))));
  EXPECT_THAT(of_file("a.jsonl", "{\"text\": 5}"), ElementsAre(HasSubstr("line 1 has no text at \"text\" but number")));
  EXPECT_THAT(of_file("a.jsonl", "[1]"), ElementsAre(HasSubstr("line 1 is no JSON object")));
  EXPECT_THAT(of_file("a.csv", "id,body\n1,x\n"),
              ElementsAre(AllOf(HasSubstr("no field \"text\"; it has \"id\", \"body\""), HasSubstr("--field"))));
  EXPECT_THAT(of_file("a.csv", "id,text\n1,x\n2\n"), ElementsAre("x", HasSubstr("begins at line 3 has 1 fields, expected 2")));
  EXPECT_THAT(of_file("a.csv", "text\n\"never closed\n"),
              ElementsAre(HasSubstr("begins at line 2 has a quote that is never closed")));
  EXPECT_THAT(of_file("a.parquet", "PAR1"), ElementsAre(AllOf(HasSubstr("a.parquet: is a Parquet file"), HasSubstr(".jsonl"))));
}

TEST_F(Texts, ThatAreNoTextAreSaidWithTheByte) {
  EXPECT_THAT(of_file("a", "caf\xE9 au lait"),
              ElementsAre(AllOf(HasSubstr("a: byte 3 (0xe9) is not UTF-8"), HasSubstr("iconv"))));
  EXPECT_THAT(of_file("a", "cut \xE4\xBD"), ElementsAre("cut ", HasSubstr("byte 4 (0xe4)")));
  EXPECT_THAT(of_file("a", std::string("el\0f", 4)), ElementsAre(AllOf(HasSubstr("byte 2 (0x00)"), HasSubstr("binary file"))));
  const std::string far = std::string(700'000, 'x') + "\xFF";
  EXPECT_THAT(of(folder_.write("a", far)).back(), HasSubstr("byte 700000 (0xff)"));
}

TEST_F(Texts, OfFilesCutShortAreSaidToBeDamaged) {
  std::string noise;
  for (uint32_t i = 0, x = 1; i < 200'000; ++i) x = x * 1664525 + 1013904223, noise += static_cast<char>('a' + (x >> 24) % 26);
  for (const auto& [format, filter] : {std::pair("raw", "gzip"), std::pair("raw", "bzip2"), std::pair("raw", "xz"),
                                       std::pair("raw", "zstd"), std::pair("ustar", "none"), std::pair("zip", "none")}) {
    packed(path("a"), format, filter, {{"x.txt", noise}});
    std::filesystem::resize_file(path("a"), std::filesystem::file_size(path("a")) / 2);
    EXPECT_THAT(of(path("a")).back(), AllOf(HasSubstr("! "), HasSubstr(path("a")))) << format << " " << filter;
  }
}

TEST_F(Texts, OfHostileArchivesAreRefused) {
  EXPECT_THAT(of(packed(path("a.tar"), "ustar", "none", {{"../../etc/passwd", "x"}})),
              ElementsAre(AllOf(HasSubstr("../../etc/passwd"), HasSubstr("leaves its folder"))));
  EXPECT_THAT(of(packed(path("b.tar"), "ustar", "none", {{"/etc/passwd", "x"}})), ElementsAre(HasSubstr("leaves its folder")));
  std::string inside = "text";
  for (int i = 0; i < 5; ++i) {
    packed(path("n.tar"), "ustar", "none", {{i == 0 ? "a.txt" : "n.tar", inside}});
    inside = folder_.read("n.tar");
  }
  EXPECT_THAT(of(path("n.tar")), ElementsAre(AllOf(HasSubstr("n.tar: n.tar"), HasSubstr("archive in an archive"))));
  packed(path("bomb.gz"), "raw", "gzip", {{"x", std::string(300 << 20, 'a')}});
  EXPECT_THAT(of(path("bomb.gz"), {.field = "text", .whole = true}).back(),
              AllOf(HasSubstr("bomb"), HasSubstr("archive bomb")));
  EXPECT_THAT(of(path("absent")), ElementsAre(HasSubstr("absent: cannot be opened")));
  packed(path("hidden.tar.gz"), "ustar", "gzip", {{".hidden", std::string(300 << 20, 'a')}, {"a.txt", "a"}});
  EXPECT_THAT(of(path("hidden.tar.gz")), ElementsAre(HasSubstr("archive bomb")));
}

TEST_F(Texts, OfHostileFilesTakeLittleMemoryAndAreRefused) {
  EXPECT_THAT(of_file("deep.jsonl", std::string(8 << 20, '[')), ElementsAre(HasSubstr("line 1 is no JSON object")));
  EXPECT_THAT(of_file("wide.csv", "text\n" + std::string(1 << 20, ',')), ElementsAre(HasSubstr("has more than 10000 fields")));
  std::string deep = "<mediawiki>";
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  EXPECT_THAT(of_file("deep.xml", deep), ElementsAre(AllOf(HasSubstr("deep.xml: line 1"), HasSubstr("more than 64 deep"))));
}

TEST(TextFiles, AreListedOnceInOrderWithoutHiddenOnes) {
  const TemporaryFolder folder;
  folder.write("b/2", "x"), folder.write("a/1", "x"), folder.write("c", "x"), folder.write(".git/config", "x");
  folder.write("a/.hidden", "x");
  const auto files = list_input_files({folder.path("c"), folder.path()});
  EXPECT_EQ(*files, (std::vector<std::string>{folder.path("c"), folder.path("a/1"), folder.path("b/2")}));
}

TEST(Documents, AreTheTextInOrderCutAtBlankLines) {
  const std::string paragraph = std::string(100, 'x') + "\n\n";
  std::string text;
  for (int i = 0; i < 200; ++i) text += paragraph;
  const auto documents = documents_of(text);
  EXPECT_GT(documents.size(), 3U);
  std::string joined;
  for (const std::string_view document : documents) {
    joined += document;
    EXPECT_TRUE(document.ends_with("\n\n"));
    EXPECT_LE(document.size(), kDocumentBytes + paragraph.size());
  }
  EXPECT_EQ(joined, text);
}

TEST(Documents, AreCutBetweenCharactersWhereThereAreNoLines) {
  std::string text;
  while (text.size() < 100'000) text += "\xE4\xBD\xA0";
  std::string joined;
  for (const std::string_view document : documents_of(text)) {
    EXPECT_EQ(document.size() % 3, 0U);
    EXPECT_LE(document.size(), 8 * kDocumentBytes + 3);
    joined += document;
  }
  EXPECT_EQ(joined, text);
}

}  // namespace
}  // namespace holdfast::model
