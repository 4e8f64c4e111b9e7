// `holdfast store copy`: a service's database moved to another place or engine.
//
// A place is a data directory (its holdfast.sqlite, made where there is none) or postgresql://…. Promises: nothing writes to
// either meanwhile: the data directory is locked, and the PostgreSQL database is led by this program; `to` has all rows or
// none, and was compared with `from`. Tokens in files, checkpoints and data sets stay where they are. Thread: any; blocks.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace holdfast::rendezvous {

struct StoreCopyReport {
  std::vector<std::pair<std::string, int64_t>> tables;  // names, and how many rows each has
};
// The error is a sentence for people.
tl::expected<StoreCopyReport, std::string> copy_store(const std::string& from, const std::string& to);

}  // namespace holdfast::rendezvous
