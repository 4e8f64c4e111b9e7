#include "rendezvous/data_sets/pinned.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/protocol/data_source.h"
#include "rendezvous/text/list_in_words.h"
#include "rendezvous/text/nearest_name.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::rendezvous {
namespace {

std::vector<std::string> names_of(const DataManifest& manifest) {
  std::vector<std::string> names;
  for (const DataSetFile& file : manifest.files) names.push_back(file.name);
  return names;
}

// "": the file can be trained on, as far as the one who pushed it said what is in it.
std::string unfit(const DataSetFile& file, const std::string& shown, const JobSpec& spec) {
  if (file.tokens_digest.empty()) return "";
  if (file.largest_id >= spec.vocab_size) {
    return fmt::format("{}: has the token id {}, and vocab_size is {}: give a vocab_size of at least {}, or other data", shown,
                       file.largest_id, spec.vocab_size, file.largest_id + 1);
  }
  if (file.tokens < spec.block_size + 1) {
    return fmt::format(
        "{}: has {} tokens, and one sequence needs {} (block_size {} and one more): give a smaller block_size, "
        "or more data",
        shown, file.tokens, spec.block_size + 1, spec.block_size);
  }
  return "";
}

// The error; "": `source` is pinned, or a file on the workers.
std::string pin(const Catalogue& catalogue, DataSource& source, const JobSpec& spec) {
  if (!source.in_set()) return "";
  const KeptDataSet* set = nullptr;
  if (!source.digest.empty()) {
    set = catalogue.find_digest(source.digest);
    if (set == nullptr) return no_such_data_set(catalogue, source.digest);
  } else {
    set = catalogue.find(source.set);
    if (set == nullptr) return no_such_data_set(catalogue, source.set);
  }
  source.digest = set->digest;
  const DataSetFile* file = set->manifest->find(source.file);
  const std::string shown = fmt::format("data:{}/{}", source.set, source.file);
  if (file == nullptr) {
    return fmt::format("{}: the data set {} has no such file; it has {}", shown, source.set,
                       in_words(names_of(*set->manifest)));
  }
  return unfit(*file, shown, spec);
}

}  // namespace

std::string no_such_data_set(const Catalogue& catalogue, const std::string& name_or_digest) {
  if (is_sha256_hex(name_or_digest)) {
    return fmt::format(
        "no data set with the digest {} is kept here: `holdfast data push` of the same files brings it back, "
        "`holdfast data ls` lists those that are",
        name_or_digest);
  }
  const std::vector<std::string> names = catalogue.name_list();
  const std::string nearest = nearest_name(name_or_digest, names);
  return fmt::format("there is no data set {}{}: `holdfast data ls` lists them, `holdfast data push DIR --name {}` makes it",
                     name_or_digest, nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), name_or_digest);
}

std::vector<FieldError> pin_data_sets(const Catalogue& catalogue, JobSpec& spec) {
  std::vector<FieldError> errors;
  const auto pin_field = [&](const char* field, std::string& text, std::vector<DataSource> sources) {
    if (std::ranges::none_of(sources, &DataSource::in_set)) return;
    for (DataSource& source : sources) {
      if (std::string wrong = pin(catalogue, source, spec); !wrong.empty()) errors.push_back({field, std::move(wrong)});
    }
    if (errors.empty()) text = to_text(sources);
  };
  if (auto sources = parse_training_sources(spec.train_data_path))
    pin_field("train_data_path", spec.train_data_path, *std::move(sources));
  if (spec.valid_data_path.empty()) return errors;
  if (auto source = parse_validation_source(spec.valid_data_path))
    pin_field("valid_data_path", spec.valid_data_path, {*std::move(source)});
  return errors;
}

std::set<std::string> data_sets_of(const JobSpec& spec) {
  std::set<std::string> digests;
  const auto add = [&](const DataSource& source) {
    if (!source.digest.empty()) digests.insert(source.digest);
  };
  if (const auto sources = parse_training_sources(spec.train_data_path)) std::ranges::for_each(*sources, add);
  if (spec.valid_data_path.empty()) return digests;
  if (const auto source = parse_validation_source(spec.valid_data_path)) add(*source);
  return digests;
}

}  // namespace holdfast::rendezvous
