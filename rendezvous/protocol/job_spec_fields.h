// The table of the job spec's fields: what parsing, writing, the command line's flags and the documentation are made from.
//
// Promises: a field is stated once, here; whoever walks the table sees every field, in the order people read them.
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
  bool above_min = false, below_max = false;  // the bound itself is out
};
struct LabelsField {
  std::map<std::string, std::string> JobSpec::*member;
  bool numbers = false;  // a value may be written as a number, too
};

struct FieldRow {
  const char* name;
  std::variant<TextField, IntegerField, NumberField, LabelsField> kind;
  const char* help;
  const char* default_text = nullptr;  // where the default is not a constant
  bool of_service = false;             // not told to workers
};
const std::vector<FieldRow>& job_spec_table();

// "1 to 65536", "float32, bfloat16", "above 0, at most 10": what the field accepts, for people.
std::string range_text(const FieldRow& row);

// Every rule between fields that is broken. Rules that read a field named in `wrong` are left out: what is wrong by itself
// holds its default here, and what a rule made of that would mislead.
std::vector<FieldError> broken_rules(const JobSpec& spec, const std::vector<FieldError>& wrong);

// Of the model presets: "tiny", "small", ... ; null when there is none of that name.
struct ModelPreset {
  const char* name;
  int64_t n_layer, n_embd, n_head, vocab_size, block_size;
};
const ModelPreset* find_model_preset(const std::string& name);

}  // namespace holdfast::rendezvous
