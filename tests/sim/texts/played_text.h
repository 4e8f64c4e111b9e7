// The texts of the simulated models: a token is a function of the model's source, the seed and the token's place, so that any
// other way of writing it shows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "model/decode/text_engine.h"
#include "rendezvous/completions/texts.h"

namespace holdfast::sim {

inline constexpr int64_t kPlayedVocabulary = 1000, kPlayedBlock = 64;

// FNV-1a of 64 bits, and a finisher (Stafford's Mix13), for seeds that follow each other.
inline uint64_t mixed(const std::string& source, uint64_t seed, uint64_t place) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : source) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001b3;
  hash += seed * 0x9e3779b97f4a7c15 + place * 0xd1b54a32d192ed03;
  hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111eb;
  return hash ^ (hash >> 31U);
}

// A text's own tokens, one after another, and how many there are.
inline int32_t played_token(const std::string& source, const model::Prompt& prompt, int64_t place) {
  return static_cast<int32_t>(mixed(source, prompt.options.seed, static_cast<uint64_t>(place)) % kPlayedVocabulary);
}
inline int64_t natural_length(const std::string& source, const model::Prompt& prompt) {
  return static_cast<int64_t>(mixed(source, prompt.options.seed, ~uint64_t{0}) % 50);
}
inline int64_t played_length(const std::string& source, const model::Prompt& prompt) {
  return std::min(prompt.options.max_tokens, natural_length(source, prompt));
}
inline rendezvous::TextOutcome played_end(const std::string& source, const model::Prompt& prompt) {
  return natural_length(source, prompt) < prompt.options.max_tokens ? rendezvous::TextOutcome::kStop
                                                                    : rendezvous::TextOutcome::kLength;
}
// Of the prompt's tokens, those that are told (model::Prompt::prompt_losses).
inline int64_t prompt_told(const model::Prompt& prompt) {
  return prompt.prompt_losses ? static_cast<int64_t>(prompt.tokens.size()) - 1 : 0;
}

}  // namespace holdfast::sim
