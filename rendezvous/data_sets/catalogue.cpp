#include "rendezvous/data_sets/catalogue.h"

#include <algorithm>
#include <set>

namespace holdfast::rendezvous {

void Catalogue::load(const FoundDataSets& found) {
  for (const auto& chunk : found.chunks) chunks_.found(chunk.name, chunk.bytes, chunk.touched_ms);
  for (const KeptDataSet& set : found.sets) {
    chunks_.need(*set.manifest);
    sets_[set.digest] = {set, 0, true};
  }
  for (const DataSetName& name : found.names) {
    if (sets_.contains(name.digest)) names_[name.name] = name;
  }
}

const KeptDataSet* Catalogue::find_digest(const std::string& digest) const {
  const auto found = sets_.find(digest);
  return found == sets_.end() || !found->second.durable ? nullptr : &found->second.set;
}

const DataSetName* Catalogue::find_name(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &found->second;
}

const KeptDataSet* Catalogue::find(const std::string& name_or_digest) const {
  const DataSetName* name = find_name(name_or_digest);
  return find_digest(name == nullptr ? name_or_digest : name->digest);
}

std::vector<std::string> Catalogue::name_list() const {
  std::vector<std::string> list;
  for (const auto& [name, meaning] : names_) list.push_back(name);
  return list;
}

bool Catalogue::is_named(const std::string& digest) const {
  return std::ranges::any_of(names_, [&](const auto& entry) { return entry.second.digest == digest; });
}

std::vector<const KeptDataSet*> Catalogue::unnamed() const {
  std::set<std::string> named;
  for (const auto& [name, meaning] : names_) named.insert(meaning.digest);
  std::vector<const KeptDataSet*> list;
  for (const auto& [digest, entry] : sets_) {
    if (entry.durable && entry.keeping == 0 && !named.contains(digest)) list.push_back(&entry.set);
  }
  return list;
}

KeptDataSet Catalogue::begin_keeping(const KeptDataSet& set) {
  Entry& entry = sets_[set.digest];
  if (entry.keeping == 0 && !entry.durable) {
    entry.set = set;
    chunks_.need(*set.manifest);
  }
  ++entry.keeping;
  return entry.set;
}

void Catalogue::keep_ended(const std::string& digest, const DataSetName& name, int64_t now_ms) {
  const auto found = sets_.find(digest);
  if (found == sets_.end()) return;
  Entry& entry = found->second;
  --entry.keeping;
  if (!name.name.empty()) {
    entry.durable = true;
    names_[name.name] = name;
    return;
  }
  if (entry.durable || entry.keeping > 0) return;
  chunks_.release(*entry.set.manifest, now_ms);  // they stay for a push that goes on
  sets_.erase(found);
}

std::vector<std::string> Catalogue::drop(const std::string& digest, int64_t now_ms) {
  const auto found = sets_.find(digest);
  if (found == sets_.end()) return {};
  std::vector<std::string> idle = chunks_.release(*found->second.set.manifest, now_ms);
  sets_.erase(found);
  return idle;
}

std::vector<std::string> Catalogue::missing_chunks(const DataManifest& manifest) const {
  std::set<std::string> missing;
  for (const DataSetFile& file : manifest.files) {
    for (const std::string& name : file.chunks) {
      if (!chunks_.has(name)) missing.insert(name);
    }
  }
  return {missing.begin(), missing.end()};
}

}  // namespace holdfast::rendezvous
