// Texts for a file of requests: each line is one of OpenAI's API in JSON (completion_request.h), without "model", and with an
// "id" if its writer likes. The answers are lines of another file.
//
// Promises: the file of answers is a function of the requests, the model's fingerprint and `seed`, byte for byte, in the order
// of the requests: whatever was written at once, and however often this was ended and begun again. It takes its name when it is
// whole. Until then what is done is in NAME.part, from which the same call goes on; what a power failure tore is done again.
// Nothing is written before every line was found right. Memory: the texts under way, and 24 bytes a line.
// Refuses, in words that name the file, the line and the field: what read_completion_request and TextEngine refuse, "stream",
// answers of other requests or of another model in NAME.part, a NAME that is there already, and a disk that is full.
// Thread: that of the decoder.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

#include "model/data/tokenizer.h"
#include "model/decode/decoder.h"

namespace holdfast::worker {

struct RequestFileProgress {
  int64_t answered = 0, requests = 0, gone_on_from = 0;  // requests: in all; of the answers so many were there before
  int64_t written_tokens = 0;                            // by this call
};

struct RequestFile {
  std::string requests, answers;  // paths
  std::string model, fingerprint;
  int64_t step = 0;           // of the checkpoint
  uint64_t seed = 1;          // that of line n is this plus n - 1, unless it says its own
  nlohmann::json defaults{};  // fields of requests that do not say them
  int64_t texts_at_once = 64;
  std::function<void(const RequestFileProgress&)> on_progress = nullptr;
};

tl::expected<RequestFileProgress, std::string> write_answers(const RequestFile& file, model::Decoder& decoder,
                                                             const model::Tokenizer& tokenizer, int64_t block_size);

}  // namespace holdfast::worker
