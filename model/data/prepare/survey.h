// The first pass over a data set: how much text there is, which document must validate, which texts came before, and a sample
// to train a tokenizer on.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "model/data/prepare/document_reader.h"
#include "model/data/prepare/prepare.h"

namespace holdfast::model {

struct Survey {
  int64_t bytes = 0, documents = 0, texts = 0;
  double lowest_place = 1;  // the document there is for validation, however small the fraction: a small text needs some, too
  std::vector<bool> duplicates;     // by record; shorter than the records where none of the last is one
  std::vector<std::string> sample;  // training documents; empty where no tokenizer is to be trained
  int64_t sample_bytes = 0;

  int64_t duplicate_texts() const;
  bool is_duplicate(int64_t record) const;
};

// Reads all of `files`. Refuses too little text.
tl::expected<Survey, std::string> survey_text(const PrepareOptions& options, const std::vector<std::string>& files);

bool is_for_validation(std::string_view document, double lowest_place, const PrepareOptions& options);

// How `files` are to be read: each time the same.
RecordOptions record_options(const PrepareOptions& options);

// Without the sample, for a journal; the second function gives it back.
nlohmann::json to_json(const Survey& survey);
Survey survey_of(const nlohmann::json& kept);

}  // namespace holdfast::model
