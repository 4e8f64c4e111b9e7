// Flags of other trainers on the command line: those that mean what a field of the job spec means are taken for it, and the
// others are refused, all at once and each with what to do instead (rendezvous/protocol/foreign_names.h).
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

class ForeignFlags {
 public:
  // Adds every foreign name as an option that help does not show. The object outlives the parsing.
  void add_to(CLI::App& command);

  // Puts what was typed, and the foreign names that stand in `spec` itself, in the places of their fields; a flag wins over
  // what stands in `spec`. `flags` are the fields that were typed by their own names. Throws Failure{kBadInput} where a name
  // has no counterpart here, or a field was given twice with different values.
  void apply(Json& spec, const std::map<std::string, std::string>& flags) const;

 private:
  std::map<std::string, std::string> typed_;  // "true" for a flag without a value
};

}  // namespace holdfast::ops
