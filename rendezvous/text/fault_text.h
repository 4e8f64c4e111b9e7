// The grammar of HOLDFAST_FAULT, by which drills and tests make a program fail at a named point:
//
//   ACTION@POINT[:key=value…][,ACTION@POINT…]
//
// Which actions, points and keys there are is each program's: worker/drills/fault_points.h, rendezvous/store/commit_faults.h.
#pragma once

#include <string>
#include <vector>

namespace holdfast::rendezvous {

struct FaultSetting {
  std::string text;        // "n=2", as it was written
  std::string key, value;  // "n", "2"; the value is "" where there is no "="
};

struct FaultText {
  std::string text;           // as it was written
  std::string action, point;  // the point is "" where the fault does not begin with ACTION@POINT
  std::vector<FaultSetting> settings;

  // The sentence for people who wrote it; `header`: the file that says what is expected.
  std::string error(const std::string& wrong, const std::string& header) const;
};

// Every text can be split; the caller judges the parts.
std::vector<FaultText> split_faults(const std::string& text);

// The key once_file: true for whoever could create the file, and where none is named. So a fault happens once, however often a
// program is started again.
bool claim_once_file(const std::string& once_file);

}  // namespace holdfast::rendezvous
