#include "rendezvous/store/kept_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "rendezvous/protocol/job_spec.h"
#include "rendezvous/store/job_store.h"
#include "rendezvous/store/stored_json.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// --- that every field of KeptMembership is in the list

struct Anything {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor): stands for a value of any type
};

template <size_t... I>
constexpr bool has_fields(std::index_sequence<I...>) {
  return requires {
    KeptMembership{(static_cast<void>(I), Anything{})...};
  };
}

constexpr size_t kKept = std::tuple_size_v<decltype(kKeptFields)>;
static_assert(has_fields(std::make_index_sequence<kKept>()) && !has_fields(std::make_index_sequence<kKept + 1>()),
              "each field of KeptMembership has one row in kKeptFields");

// --- values to columns and back

constexpr std::array kCauses = {"start", "fault", "orderly"};
constexpr std::array kIntents = {"run", "pause", "stop", "preempt"};

template <typename Enum, size_t N>
Enum parse(const std::string& text, const std::array<const char*, N>& names) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) throw StoreError(fmt::format("the database holds the unknown word \"{}\"", text));
  return static_cast<Enum>(found - names.begin());
}

void keep(const std::string& value, std::string& stored) {
  stored = value;
}
void keep(int64_t value, int64_t& stored) {
  stored = value;
}
void keep(JobState value, std::string& stored) {
  stored = job_state_name(value);
}
void keep(Stage value, std::string& stored) {
  stored = stage_name(value == Stage::kYielding ? Stage::kRunning : value);
}
void keep(Cause value, std::string& stored) {
  stored = kCauses.at(static_cast<size_t>(value));
}
void keep(Intent value, std::string& stored) {
  stored = kIntents.at(static_cast<size_t>(value));
}
void keep(const JobSpec& value, std::string& stored) {
  if (stored.empty()) stored = to_json(value).dump();
}
void keep(const std::vector<StateSource>& value, std::string& stored) {
  Json json = Json::array();
  for (const StateSource& source : value) json.push_back(source_to_json(source));
  stored = json.dump();
}

void read(const std::string& stored, std::string& value) {
  value = stored;
}
void read(int64_t stored, int64_t& value) {
  value = stored;
}
void read(const std::string& stored, JobState& value) {
  value = job_state_from(stored);
}
void read(const std::string& stored, Stage& value) {
  value = stage_from(stored);
}
void read(const std::string& stored, Cause& value) {
  value = parse<Cause>(stored, kCauses);
}
void read(const std::string& stored, Intent& value) {
  value = parse<Intent>(stored, kIntents);
}
void read(const std::string& stored, JobSpec& value) {
  value = job_spec_from_json(Json::parse(stored));
}
void read(const std::string& stored, std::vector<StateSource>& value) {
  value.clear();
  for (const Json& source : Json::parse(stored)) value.push_back(source_from_json(source));
}

}  // namespace

void keep_columns(const KeptMembership& kept, JobRow& row) {
  for_each_kept_column([&](const auto& column) { keep(kept.*column.field, row.*column.stored); });
}

void read_columns(const JobRow& row, KeptMembership& kept) {
  for_each_kept_column([&](const auto& column) { read(row.*column.stored, kept.*column.field); });
}

void read_generation(const Generation& generation, KeptMembership& kept) {
  for (const Member& member : generation.members) kept.lineage_of[member.incarnation] = generation.lineage;
  if (!generation.members.empty()) kept.began_at[generation.number] = generation.source.step;
  if (generation.members.empty()) kept.outrun_to = std::max(kept.outrun_to, generation.number);
  if (generation.number > kept.current.number) kept.current = generation;
}

void read_checkpoint(const CheckpointRow& row, KeptMembership& kept) {
  const CheckpointRecord& record = row.record;
  kept.checkpoints[record.step] = {record.step, record.store, record.state_hash, row.unreadable};
  if (record.step == kept.checkpoints.rbegin()->first) kept.checkpoint_s = record.stall_s + record.write_s;
}

}  // namespace holdfast::rendezvous
