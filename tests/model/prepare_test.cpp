// From text to token files: nothing is lost, the files are the same every time, and refusals have useful messages.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/data/byte_pairs/vocabulary_files.h"
#include "model/data/tokenizer.h"
#include "tests/model/prepared_data.h"

namespace holdfast::model {
namespace {

TEST_F(PrepareTest, WritesEveryByteOfTheTextOnceToTrainingOrValidation) {
  write_texts();
  const auto report = prepare(options("data"));
  ASSERT_TRUE(report) << report.error();
  const int64_t bytes =
      static_cast<int64_t>(english_text().size() + chinese_text().size() + std::string("A short one.\n").size());
  EXPECT_EQ(report->files, 3);
  EXPECT_EQ(report->bytes, bytes);
  EXPECT_EQ(report->train_tokens + report->validation_tokens, bytes);
  EXPECT_GT(report->validation_tokens, 0);
  EXPECT_EQ(report->vocab_size, 256);
  EXPECT_EQ(ids_of(out_.path("data/train.bin")).size(), static_cast<size_t>(report->train_tokens));
  EXPECT_EQ(ids_of(out_.path("data/val.bin")).size(), static_cast<size_t>(report->validation_tokens));
}

TEST_F(PrepareTest, TheFilesAreTheSameEveryTime) {
  write_texts();
  for (const char* tokenizer : {"bytes", "bpe"}) {
    ASSERT_TRUE(prepare(options("one", tokenizer)));
    ASSERT_TRUE(prepare(options("two", tokenizer)));
    for (const auto& entry : std::filesystem::directory_iterator(out_.path("one"))) {
      const std::string name = entry.path().filename();
      EXPECT_EQ(out_.read("one/" + name), out_.read("two/" + name)) << tokenizer << " " << name;
    }
  }
}

TEST_F(PrepareTest, TheTextComesBackFromTheTokens) {
  text_.write("a.txt", english_text());
  PrepareOptions chosen = options("data", "bpe");
  chosen.validation_fraction = 0;
  const auto report = prepare(chosen);
  ASSERT_TRUE(report) << report.error();
  EXPECT_EQ(report->validation_tokens, 0);
  EXPECT_FALSE(std::filesystem::exists(out_.path("data/val.bin")));
  const auto tokenizer = Tokenizer::load(out_.path("data"));
  const std::vector<int32_t> ids = ids_of(out_.path("data/train.bin"));
  EXPECT_EQ((*tokenizer)->decode(ids), english_text());
  EXPECT_EQ(ids.back(), (*tokenizer)->end_of_document());
  EXPECT_EQ(std::ranges::count(ids, (*tokenizer)->end_of_document()), 1) << "one file of many documents is one text";
}

TEST_F(PrepareTest, AMarkStandsBetweenTextsThatDoNotContinueEachOther) {
  for (const char* name : {"1.txt", "2.txt", "3.txt"}) text_.write(name, english_text() + name);
  PrepareOptions chosen = options("data", "bpe");
  chosen.validation_fraction = 0;
  ASSERT_TRUE(prepare(chosen));
  const auto tokenizer = Tokenizer::load(out_.path("data"));
  EXPECT_EQ(std::ranges::count(ids_of(out_.path("data/train.bin")), (*tokenizer)->end_of_document()), 3);
}

TEST_F(PrepareTest, InfoSaysWhatTheFilesAre) {
  write_texts();
  const auto report = prepare(options("data", "bpe"));
  ASSERT_TRUE(report) << report.error();
  const auto info = nlohmann::json::parse(out_.read("data/info.json"));
  EXPECT_EQ(info["vocab_size"], 700);
  EXPECT_EQ(info["tokenizer"], "bpe");
  EXPECT_EQ(info["tokenizer_file"], "tokenizer.model");
  EXPECT_EQ(info["files"], 3);
  EXPECT_EQ(info["train"]["tokens"], report->train_tokens);
  EXPECT_EQ(info["train"]["digest"], (*TokenFile::open(out_.path("data/train.bin")))->digest());
  EXPECT_EQ(info["validation"]["digest"], (*TokenFile::open(out_.path("data/val.bin")))->digest());
}

TEST_F(PrepareTest, BothFormatsHoldTheSameIds) {
  write_texts();
  ASSERT_TRUE(prepare(options("raw")));
  PrepareOptions chosen = options("headed");
  chosen.format = "llm.c";
  ASSERT_TRUE(prepare(chosen));
  EXPECT_STREQ((*TokenFile::open(out_.path("headed/train.bin")))->format(), "llm.c");
  EXPECT_EQ(ids_of(out_.path("headed/train.bin")), ids_of(out_.path("raw/train.bin")));
}

TEST_F(PrepareTest, ReadsCompressedTextAsItsText) {
  text_.write("a.txt", english_text());
  PrepareOptions plain = options("plain");
  ASSERT_TRUE(prepare(plain));
  std::filesystem::remove(text_.path("a.txt"));
  write_gz(text_.path("a.txt.gz"), english_text());
  ASSERT_TRUE(prepare(options("packed")));
  EXPECT_EQ(out_.read("packed/train.bin"), out_.read("plain/train.bin"));
}

TEST_F(PrepareTest, AddingAFileMovesNoOther) {
  text_.write("b.txt", english_text());
  ASSERT_TRUE(prepare(options("before")));
  text_.write("c.txt", chinese_text());
  ASSERT_TRUE(prepare(options("after")));
  EXPECT_TRUE(out_.read("after/train.bin").starts_with(out_.read("before/train.bin")));
  EXPECT_TRUE(out_.read("after/val.bin").starts_with(out_.read("before/val.bin")));
}

TEST_F(PrepareTest, UsesAnExistingTokenizer) {
  write_texts();
  ASSERT_TRUE(prepare(options("first", "bpe")));
  const auto report = prepare(options("second", out_.path("first")));
  ASSERT_TRUE(report) << report.error();
  EXPECT_EQ(report->vocab_size, 700);
  EXPECT_EQ(out_.read("second/tokenizer.model"), out_.read("first/tokenizer.model"));
  EXPECT_EQ(out_.read("second/train.bin"), out_.read("first/train.bin"));
}

// The fraction is so small that by it no document is for validation. One is held out nevertheless, and the tokenizer is not
// trained on it.
TEST_F(PrepareTest, TheTokenizerNeverSawTheHeldOutDocument) {
  text_.write("a.txt", english_text());
  const std::string text = english_text();
  const auto documents = documents_of(text);
  ASSERT_GT(documents.size(), 2U);
  const auto lowest = std::ranges::min_element(documents, {}, [](std::string_view one) { return document_place(one, 0); });
  PrepareOptions chosen = options("held_out", "bpe");
  chosen.validation_fraction = 1e-9;
  const auto report = prepare(chosen);
  ASSERT_TRUE(report) << report.error();
  const auto info = nlohmann::json::parse(out_.read("held_out/info.json"));
  EXPECT_EQ(info["tokenizer_training_bytes"], text.size() - lowest->size());
}

TEST_F(PrepareTest, AnAddedFileMovesOnlyTheDocumentThatWasHeldOutBecauseNoOtherWas) {
  text_.write("a.txt", english_text());
  PrepareOptions chosen = options("before");
  chosen.validation_fraction = 1e-9;
  ASSERT_TRUE(prepare(chosen));
  const std::string held_out = text_of(out_.path("before/val.bin"));
  const double place = document_place(held_out, 0);
  int n = 0;
  while (document_place("lower " + std::to_string(n), 0) >= place) ++n;
  text_.write("b.txt", "lower " + std::to_string(n));
  chosen.output = out_.path("after");
  ASSERT_TRUE(prepare(chosen));
  EXPECT_EQ(text_of(out_.path("after/val.bin")), "lower " + std::to_string(n));
  EXPECT_EQ(text_of(out_.path("after/train.bin")), english_text());
}

TEST_F(PrepareTest, RefusesBytesThatAreNotUtf8AndSaysWhereAndWhatToDo) {
  text_.write("good.txt", english_text());
  text_.write("latin.txt", "caf\xE9 au lait");
  EXPECT_THAT(refusal_of(options("data")), AllOf(HasSubstr("latin.txt: byte 3 (0xe9) is not UTF-8"), HasSubstr("iconv")));
  EXPECT_FALSE(std::filesystem::exists(out_.path("data")));
}

TEST_F(PrepareTest, RefusesBinaryFiles) {
  text_.write("good.txt", english_text());
  text_.write("program", std::string("\x7F"
                                     "ELF\0\0",
                                     6));
  EXPECT_THAT(refusal_of(options("data")), AllOf(HasSubstr("program: byte 4 (0x00)"), HasSubstr("binary")));
}

TEST_F(PrepareTest, RefusesATruncatedArchive) {
  write_gz(text_.path("a.gz"), english_text());
  std::filesystem::resize_file(text_.path("a.gz"), std::filesystem::file_size(text_.path("a.gz")) / 2);
  EXPECT_THAT(refusal_of(options("data")), AllOf(HasSubstr("a.gz"), HasSubstr("truncated")));
}

TEST_F(PrepareTest, RefusesMissingInputs) {
  PrepareOptions chosen = options("data");
  chosen.inputs = {text_.path("absent")};
  EXPECT_THAT(refusal_of(chosen), AllOf(HasSubstr("absent"), HasSubstr("no such file or folder")));
  chosen.inputs = {};
  EXPECT_THAT(refusal_of(chosen), HasSubstr("no input"));
  chosen.inputs = {text_.path()};
  EXPECT_THAT(refusal_of(chosen), HasSubstr("no files in it"));
  ASSERT_EQ(::mkfifo(text_.path("pipe").c_str(), 0600), 0);
  chosen.inputs = {text_.path("pipe")};
  EXPECT_THAT(refusal_of(chosen), HasSubstr("pipe: is no regular file"));
}

TEST_F(PrepareTest, RefusesTextTooSmallToBeSplit) {
  text_.write("a.txt", "A few words.");
  EXPECT_THAT(refusal_of(options("data")),
              AllOf(HasSubstr("too small"), HasSubstr("12 bytes"), HasSubstr("validation_fraction")));
  text_.write("b.txt", "A few words.");
  EXPECT_THAT(refusal_of(options("data")), HasSubstr("all 2 documents fell to validation"));
}

TEST_F(PrepareTest, ASmallTextStillHasAValidationDocument) {
  text_.write("a.txt", "A few words.");
  text_.write("b.txt", "A few more words.");
  PrepareOptions chosen = options("data");
  chosen.validation_fraction = 1e-6;
  const auto report = prepare(chosen);
  ASSERT_TRUE(report) << report.error();
  EXPECT_GT(report->validation_tokens, 0);
  EXPECT_GT(report->train_tokens, 0);
}

TEST_F(PrepareTest, RefusesOptionsByName) {
  write_texts();
  PrepareOptions chosen = options("data");
  chosen.format = "hdf5";
  EXPECT_THAT(refusal_of(chosen), AllOf(HasSubstr("format"), HasSubstr("hdf5")));
  chosen = options("data");
  chosen.validation_fraction = 1;
  EXPECT_THAT(refusal_of(chosen), HasSubstr("validation_fraction"));
  EXPECT_THAT(refusal_of(options("data", "gpt2")), AllOf(HasSubstr("tokenizer"), HasSubstr("gpt2")));
  chosen = options("data", "bpe");
  chosen.vocab_size = 70'000;
  EXPECT_THAT(refusal_of(chosen), AllOf(HasSubstr("vocab_size 70000"), HasSubstr("65536")));
  chosen = options("data");
  chosen.output = text_.write("file", "in the way") + "/data";
  EXPECT_THAT(refusal_of(chosen), AllOf(HasSubstr("file/data"), HasSubstr("another output folder")));
}

TEST_F(PrepareTest, OneTextsIdsAreThoseOfTheWholeTextWhereverItWasCut) {
  std::string text = english_text();
  std::ranges::replace(text.begin() + 2000, text.end(), '\n', ' ');  // cut by the hard rule, wherever that falls
  for (const std::string once = text; text.size() < 200'000;) text += once;
  text_.write("a.txt", text);
  BytePairVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* merged : {"\n\n", "  ", " t", "th", " a"}) {
    vocabulary.merges.push_back({merged[0], merged[1], static_cast<int32_t>(vocabulary.tokens.size())});
    vocabulary.tokens.emplace_back(merged);
  }
  const std::string path = text_.write(".gpt2/tokenizer.json", to_tokenizer_json(vocabulary));
  PrepareOptions chosen = options("data", "gpt2:" + path);
  chosen.validation_fraction = 0;
  ASSERT_TRUE(prepare(chosen));
  const auto tokenizer = Tokenizer::load(out_.path("data"));
  ASSERT_TRUE(tokenizer) << tokenizer.error();
  EXPECT_EQ(ids_of(out_.path("data/train.bin")), (*tokenizer)->encode(text));
}

TEST_F(PrepareTest, TheFilesAreTheSameAtAnyNumberOfThreads) {
  write_texts();
  PrepareOptions chosen = options("one", "bpe");
  ASSERT_TRUE(prepare(chosen));
  chosen.output = out_.path("four");
  chosen.threads = 4;
  ASSERT_TRUE(prepare(chosen));
  EXPECT_EQ(contents(out_.path("one")), contents(out_.path("four")));
}

TEST_F(PrepareTest, KeepsTheFirstOfEqualTexts) {
  text_.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"one\"}\n");
  text_.write("b.txt", "two");
  text_.write("c.txt", "three");
  PrepareOptions chosen = options("data");
  chosen.validation_fraction = 0;
  chosen.dedup = true;
  const auto report = prepare(chosen);
  ASSERT_TRUE(report) << report.error();
  EXPECT_EQ(report->texts, 5);
  EXPECT_EQ(report->duplicates, 2);
  EXPECT_EQ(text_of(out_.path("data/train.bin")), "onetwothree");
  EXPECT_EQ(nlohmann::json::parse(out_.read("data/info.json"))["duplicates"], 2);
}

}  // namespace
}  // namespace holdfast::model
