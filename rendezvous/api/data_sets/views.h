// Data sets as JSON, for people and programs.
//
// Thread: any.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "rendezvous/data_sets/catalogue.h"

namespace holdfast::rendezvous {

// {"name", "digest", "bytes", "chunks", "tokens", "files": [{"name", "bytes", "tokens", "largest_id", "tokens_digest"}],
// "pushed_at", "jobs"}. `name`: "" is null: another data set has it now. `jobs`: of those that are not over, which use it.
nlohmann::json show_data_set(const KeptDataSet& set, const std::string& name, int64_t named_ms,
                             const std::set<std::string>& jobs);

}  // namespace holdfast::rendezvous
