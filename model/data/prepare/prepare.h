// Text to token files.
//
// Promises: the same input and options give the same files, bit for bit, at any number of threads. Memory is bounded, whatever
// the input: some records.h's kLongestRecord, and with `dedup` some 50 bytes a text. A run that was killed and is started again
// goes on where it was, or some seconds before. A run that fails leaves the folder as it was, but for what a longer one has
// done so far, which the error says. Files of a run that succeeds are written beside those of an earlier run and take their
// place at the end, info.json last: a run that is killed while it renames leaves a folder without info.json.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::model {

struct PrepareProgress {
  int pass = 1;                         // 1: the text is read and counted, 2: its tokens are written
  int64_t bytes = 0, bytes_in_all = 0;  // of the input files as they are on disk, in this pass
  int64_t text_bytes = 0;               // likewise, unpacked
  int64_t tokens = 0;
  bool skips = false;  // reads again what an interrupted run has written
};

struct PrepareOptions {
  std::vector<std::string> inputs;    // files or folders of text (text/archive_reader.h and text/records.h: which)
  std::string output;                 // folder: train.bin, val.bin, tokenizer.model or tokenizer.json, info.json
  std::string tokenizer = "bpe";      // bpe | bytes | path of an existing tokenizer, or gpt2:PATH
  int64_t vocab_size = 8192;          // for bpe
  double validation_fraction = 0.05;  // 0: no val.bin
  std::string format = "nanogpt";     // nanogpt | llm.c
  uint64_t seed = 0;
  std::string field = "text";  // of .jsonl, .csv and .tsv files
  bool dedup = false;          // of equal texts (records) the first alone is kept; of plain files above kLongestRecord all are
  int threads = 1;             // that encode
  size_t batch_bytes = 4 << 20;                             // of text that is encoded at once
  std::chrono::milliseconds journal_every{10'000};          // how much a run that is killed loses
  std::function<void(const PrepareProgress&)> on_progress;  // a few times a second, on the caller's thread
};

struct PrepareReport {
  int64_t files = 0, texts = 0, duplicates = 0, bytes = 0, train_tokens = 0, validation_tokens = 0, vocab_size = 0;
  int64_t gone_on_from = 0;  // documents that an interrupted run had written
};

// Texts (records.h) are cut into documents where they are long (documents.h). Documents go to train or validation by a hash of
// their text. The end-of-document id follows a document unless the one written next continues its text. A tokenizer is trained
// on training text only, on at most kTokenizerTrainingBytes of it: all, or documents spread evenly. (Measured on 6 MB of
// Chinese manual pages: trained on a quarter the text takes 1.5% more tokens than trained on all of it, and training takes a
// tenth of the time; the library's BPE trainer is far from linear.)
constexpr int64_t kTokenizerTrainingBytes = 4 << 20;
tl::expected<PrepareReport, std::string> prepare(const PrepareOptions& options);

}  // namespace holdfast::model
