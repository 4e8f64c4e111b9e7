// The table of the job spec's fields. Parsing, writing, the command line's flags and the documentation are made from it.
//
// Promises: a field is stated once, in this table; a walk over it visits every field, in the order in which people read them.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::rendezvous {

struct TextField {
  std::string JobSpec::*member;
  size_t max_bytes;
  std::vector<std::string> choices = {};  // empty: any text
};
struct IntegerField {
  int64_t JobSpec::*member;
  int64_t min, max;
};
struct NumberField {
  double JobSpec::*member;
  double min, max;
  bool above_min = false, below_max = false;  // true: the bound itself is not allowed
};
struct LabelsField {
  std::map<std::string, std::string> JobSpec::*member;
  bool numbers = false;  // true: a value may also be written as a number
};

struct FieldRow {
  const char* name;
  std::variant<TextField, IntegerField, NumberField, LabelsField> kind;
  const char* help;
  const char* default_text = nullptr;  // the default in words, where it is not a constant; else null
  bool of_service = false;             // true: workers do not get the field
  enum class Of : uint8_t { kTraining, kServing, kBoth } of = Of::kTraining;  // the kinds of jobs that have it
  bool belongs_to(const JobSpec& spec) const { return of == Of::kBoth || (of == Of::kServing) == spec.serves(); }
};
const std::vector<FieldRow>& job_spec_table();

// The values that the field accepts, for people: "1 to 65536", "float32, bfloat16", "above 0, at most 10".
std::string range_text(const FieldRow& row);

// Every rule between fields that `spec` breaks. Rules that read a field named in `wrong` are left out: such a field has its
// default in `spec`, and a complaint about the default would mislead.
std::vector<FieldError> broken_rules(const JobSpec& spec, const std::vector<FieldError>& wrong);

// Sizes of a model, by a name such as "tiny" or "small".
struct ModelPreset {
  const char* name;
  int64_t n_layer, n_embd, n_head, vocab_size, block_size;
};
// Null when no preset has that name.
const ModelPreset* find_model_preset(const std::string& name);

}  // namespace holdfast::rendezvous
