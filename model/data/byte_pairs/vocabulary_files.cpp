#include "model/data/byte_pairs/vocabulary_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

#include "model/data/byte_pairs/encoder.h"
#include "model/data/byte_pairs/visible_bytes.h"
#include "model/data/small_file.h"
#include "storage/json/outside_json.h"

namespace holdfast::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Read = tl::expected<BytePairVocabulary, std::string>;
using Problem = tl::expected<void, std::string>;

Problem place_token(BytePairVocabulary& vocabulary, const json& id, std::string bytes, const std::string& name) {
  constexpr int64_t kMostTokens = 1 << 22;
  if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= kMostTokens) {
    return tl::unexpected(
        fmt::format("token \"{}\" has the id {}, expected a number from 0 to {}.", name, id.dump(), kMostTokens - 1));
  }
  const auto at = id.get<size_t>();
  if (at >= vocabulary.tokens.size()) vocabulary.tokens.resize(at + 1);
  if (!vocabulary.tokens[at].empty() && vocabulary.tokens[at] != bytes) {
    return tl::unexpected(
        fmt::format("tokens \"{}\" and \"{}\" have one id, {}.", visible_text(vocabulary.tokens[at]), name, at));
  }
  vocabulary.tokens[at] = std::move(bytes);
  return {};
}

void mark_special(BytePairVocabulary& vocabulary, int32_t id, const std::string& name) {
  vocabulary.special_ids.push_back(id);
  if (name == kEndOfText) vocabulary.end_of_text = id;
}

using Names = std::set<std::string>;

// {"token in visible characters": id}, but for `added` tokens, which stand there by their names. The end of text is among them
// in GPT-2's own.
Problem add_tokens(BytePairVocabulary& vocabulary, const json& ids, const Names& added = {}) {
  if (!ids.is_object()) return tl::unexpected(std::string("its vocabulary is no JSON object of tokens and ids."));
  for (const auto& [name, id] : ids.items()) {
    const bool is_end = name == kEndOfText;
    auto bytes = is_end || added.contains(name) ? std::optional(name) : bytes_of_visible(name);
    if (!bytes) {
      return tl::unexpected(
          fmt::format("token \"{}\" has a character that stands for no byte: is this a byte-level vocabulary?", name));
    }
    if (auto placed = place_token(vocabulary, id, *std::move(bytes), name); !placed) return placed;
    if (is_end) mark_special(vocabulary, id.get<int32_t>(), name);
  }
  return {};
}

using IdOf = std::unordered_map<std::string, int32_t>;  // by a token's bytes

IdOf ids_by_bytes(const BytePairVocabulary& vocabulary) {
  IdOf ids;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) ids.emplace(vocabulary.tokens[id], static_cast<int32_t>(id));
  return ids;
}

Problem add_merge(BytePairVocabulary& vocabulary, const IdOf& ids, std::string_view left, std::string_view right) {
  const auto id_of = [&](const std::optional<std::string>& bytes) {
    const auto found = bytes ? ids.find(*bytes) : ids.end();
    return found == ids.end() ? -1 : found->second;
  };
  const auto first = bytes_of_visible(left), second = bytes_of_visible(right);
  const int32_t a = id_of(first), b = id_of(second), merged = first && second ? id_of(*first + *second) : -1;
  if (a < 0 || b < 0 || merged < 0) {
    return tl::unexpected(
        fmt::format("merge {} is of \"{}\" and \"{}\", and not all of the two and the token they make are in the vocabulary.",
                    vocabulary.merges.size(), left, right));
  }
  vocabulary.merges.push_back({a, b, merged});
  return {};
}

Problem add_merge_line(BytePairVocabulary& vocabulary, const IdOf& ids, std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    return tl::unexpected(
        fmt::format("merge {} is \"{}\", expected two tokens and a space between them.", vocabulary.merges.size(), line));
  }
  return add_merge(vocabulary, ids, line.substr(0, space), line.substr(space + 1));
}

Problem add_merge_lines(BytePairVocabulary& vocabulary, std::string_view text) {
  const IdOf ids = ids_by_bytes(vocabulary);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (vocabulary.merges.empty() && line.starts_with("#version"))) continue;
    if (auto added = add_merge_line(vocabulary, ids, line); !added) return added;
  }
  return {};
}

Problem add_json_merges(BytePairVocabulary& vocabulary, const json& merges) {
  if (!merges.is_array()) return tl::unexpected(std::string("its \"merges\" is no array."));
  const IdOf ids = ids_by_bytes(vocabulary);
  for (const json& merge : merges) {
    const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!is_pair && !merge.is_string())
      return tl::unexpected(fmt::format("merge {} is no text and no pair of texts.", vocabulary.merges.size()));
    auto added = is_pair ? add_merge(vocabulary, ids, merge[0].get<std::string>(), merge[1].get<std::string>())
                         : add_merge_line(vocabulary, ids, merge.get<std::string>());
    if (!added) return added;
  }
  return {};
}

// The contents of "added_tokens"; those that have none are refused later.
Names names_of(const json& added) {
  Names names;
  if (!added.is_array()) return names;
  for (const json& token : added) {
    if (token.is_object() && token.value("content", json()).is_string()) names.insert(token["content"].get<std::string>());
  }
  return names;
}

// Tokens beside the vocabulary: each is a name that text never becomes.
Problem add_special_tokens(BytePairVocabulary& vocabulary, const json& added) {
  if (!added.is_array()) return {};
  for (const json& token : added) {
    const bool is_named = token.is_object() && token.contains("id") && token.value("content", json()).is_string();
    if (!is_named) return tl::unexpected(std::string("a token of \"added_tokens\" has no id or no content."));
    const auto name = token["content"].get<std::string>();
    if (auto placed = place_token(vocabulary, token["id"], name, name); !placed) return placed;
    mark_special(vocabulary, token["id"].get<int32_t>(), name);
  }
  return {};
}

// GPT-2's words come from a pre_tokenizer "ByteLevel" with its own pattern and without a space in front.
Problem check_words(const json& description) {
  const json cut = description.value("pre_tokenizer", json());
  const bool is_gpt2s = cut.is_object() && cut.value("type", json()) == "ByteLevel" &&
                        cut.value("add_prefix_space", json(false)) == false && cut.value("use_regex", json(true)) == true;
  if (!is_gpt2s) {
    return tl::unexpected(fmt::format("its pre_tokenizer is {}, expected GPT-2's: ByteLevel, without a prefix space.",
                                      cut.is_null() ? "absent" : cut.dump().substr(0, 200)));
  }
  if (!description.value("normalizer", json()).is_null()) {
    return tl::unexpected(std::string("it has a normalizer, which changes text, expected none, as GPT-2's."));
  }
  return {};
}

Problem fill_from_json(BytePairVocabulary& vocabulary, const json& description) {
  const json& bpe = description.contains("model") ? description["model"] : description;
  if (!bpe.is_object() || !bpe.contains("vocab") || !bpe.contains("merges") || bpe.value("type", json("BPE")) != "BPE") {
    return tl::unexpected(
        std::string("is no byte pair vocabulary: expected \"model\" with \"type\": \"BPE\", \"vocab\" and \"merges\"."));
  }
  const json added = description.value("added_tokens", json());
  return check_words(description)
      .and_then([&] { return add_tokens(vocabulary, bpe["vocab"], names_of(added)); })
      .and_then([&] { return add_special_tokens(vocabulary, added); })
      .and_then([&] { return add_json_merges(vocabulary, bpe["merges"]); });
}

Read finished(BytePairVocabulary vocabulary, const Problem& filled, const std::string& origin) {
  Problem good = filled;
  std::ranges::sort(vocabulary.special_ids);
  const auto twice = std::ranges::unique(vocabulary.special_ids);
  vocabulary.special_ids.erase(twice.begin(), twice.end());
  if (good) good = check(vocabulary);
  if (!good) return tl::unexpected(origin + ": " + good.error());
  return vocabulary;
}

Read read_pair_of_files(const fs::path& ids, const fs::path& merges) {
  const auto id_bytes = read_small_file(ids.string()), merge_bytes = read_small_file(merges.string());
  if (!id_bytes || !merge_bytes) return tl::unexpected(id_bytes ? merge_bytes.error() : id_bytes.error());
  BytePairVocabulary vocabulary;
  if (auto added = add_tokens(vocabulary, storage::parse_json(*id_bytes).json); !added) {
    return tl::unexpected(ids.string() + ": " + added.error());
  }
  const Problem added = add_merge_lines(vocabulary, *merge_bytes);
  return finished(std::move(vocabulary), added, merges.string());
}

// The file has tokens alone. The merge that makes a token is of the two parts that merging leaves of its bytes, with the merges
// of the tokens before it.
Problem recover_merges(BytePairVocabulary& vocabulary) {
  MergeTable table(vocabulary.tokens.size());
  const IdOf ids = ids_by_bytes(vocabulary);
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    if (token.size() < 2) continue;
    std::vector<int32_t> parts;
    for (const char byte : token) {
      const auto found = ids.find(std::string(1, byte));
      if (found == ids.end()) return check(vocabulary);  // names the byte
      parts.push_back(found->second);
    }
    merge_pairs(table, parts);
    if (parts.size() != 2) {
      return tl::unexpected(
          fmt::format("token {} (\"{}\") is made of {} tokens before it, expected 2: the ranks are not those of merges.", id,
                      visible_text(token), parts.size()));
    }
    const BytePairVocabulary::Merge merge{parts[0], parts[1], static_cast<int32_t>(id)};
    table.add(merge);
    vocabulary.merges.push_back(merge);
  }
  return {};
}

Problem add_tiktoken_line(BytePairVocabulary& vocabulary, std::string_view line, size_t number) {
  const size_t space = line.find(' ');
  const auto bytes = space == std::string_view::npos ? std::nullopt : bytes_of_base64(line.substr(0, space));
  const std::string_view rank = line.substr(std::min(line.size(), space + 1));
  int64_t id = -1;
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), id);
  if (!bytes || bytes->empty() || error != std::errc() || end != rank.data() + rank.size()) {
    return tl::unexpected(
        fmt::format("line {} is \"{}\", expected a token in base64, a space and its rank.", number, line.substr(0, 60)));
  }
  return place_token(vocabulary, id, *bytes, visible_text(*bytes));
}

Read read_tiktoken(const fs::path& path) {
  const auto bytes = read_small_file(path.string());
  if (!bytes) return tl::unexpected(bytes.error());
  BytePairVocabulary vocabulary;
  Problem good;
  std::string_view text = *bytes;
  for (size_t number = 1; good && !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) good = add_tiktoken_line(vocabulary, line, number);
  }
  if (good) good = check(vocabulary);
  if (good) good = recover_merges(vocabulary);
  vocabulary.tokens.emplace_back(kEndOfText);  // the library has it behind the ranks
  mark_special(vocabulary, static_cast<int32_t>(vocabulary.tokens.size()) - 1, kEndOfText);
  return finished(std::move(vocabulary), good, path.string());
}

Read read_folder(const fs::path& folder) {
  if (fs::exists(folder / "tokenizer.json")) return read_byte_pairs((folder / "tokenizer.json").string());
  for (const auto& [ids, merges] : {std::pair("vocab.json", "merges.txt"), std::pair("encoder.json", "vocab.bpe")}) {
    if (fs::exists(folder / ids) && fs::exists(folder / merges)) return read_pair_of_files(folder / ids, folder / merges);
  }
  std::vector<fs::path> ranks;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".tiktoken") ranks.push_back(entry.path());
  }
  if (ranks.size() == 1) return read_tiktoken(ranks.front());
  if (ranks.size() > 1) {
    return tl::unexpected(fmt::format("{}: has {} .tiktoken files: name one of them, such as {}.", folder.string(),
                                      ranks.size(), ranks.front().string()));
  }
  return tl::unexpected(fmt::format(
      "{}: has neither tokenizer.model nor tokenizer.json, nor vocab.json with merges.txt, encoder.json with vocab.bpe, or "
      "one .tiktoken file. Give a folder that `holdfast data prepare` wrote, or GPT-2's vocabulary.",
      folder.string()));
}

}  // namespace

Read parse_tokenizer_json(const std::string& bytes, const std::string& origin) {
  const auto [description, too_deep] = storage::parse_json(bytes);
  if (too_deep) return tl::unexpected(fmt::format("{}: is nested deeper than {} levels.", origin, storage::kJsonDepthMax));
  if (!description.is_object()) return tl::unexpected(origin + ": is no JSON object, expected a tokenizer.json.");
  BytePairVocabulary vocabulary;
  const Problem filled = fill_from_json(vocabulary, description);
  return finished(std::move(vocabulary), filled, origin);
}

Read read_byte_pairs(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return read_folder(path);
  if (fs::path(path).extension() == ".tiktoken") return read_tiktoken(path);
  return read_small_file(path).and_then([&](const std::string& bytes) { return parse_tokenizer_json(bytes, path); });
}

std::string merge_text(const BytePairVocabulary& vocabulary, size_t merge) {
  const auto& [left, right, merged] = vocabulary.merges[merge];
  return visible_text(vocabulary.tokens[static_cast<size_t>(left)]) + " " +
         visible_text(vocabulary.tokens[static_cast<size_t>(right)]);
}

std::string to_tokenizer_json(const BytePairVocabulary& vocabulary) {
  json ids = json::object(), merges = json::array(), special = json::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    const bool is_special = std::ranges::binary_search(vocabulary.special_ids, static_cast<int32_t>(id));
    ids[is_special ? token : visible_text(token)] = id;
    if (is_special) {
      special.push_back({{"id", id},
                         {"content", token},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", true},
                         {"special", true}});
    }
  }
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) merges.push_back(merge_text(vocabulary, i));
  const json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", special},
              {"normalizer", nullptr},
              {"pre_tokenizer", byte_level},
              {"post_processor", nullptr},
              {"decoder", byte_level},
              {"model",
               {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"vocab", ids},
                {"merges", merges}}}}
             .dump() +
         "\n";
}

}  // namespace holdfast::model
