// Help topics beside the commands: the job spec, the environment, exit codes, files. One source for `holdfast help` and for the
// manual page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

struct HelpEntry {
  std::string term;   // "batch_size"
  std::string facts;  // "integer; 1 to 65536; default 4", or ""
  std::string text;
};
struct HelpSection {
  std::string heading;  // "" for none
  std::string text;     // before the entries
  std::vector<HelpEntry> entries;
};
struct HelpTopic {
  std::string name;   // "job_spec"
  std::string title;  // "Job spec"
  std::vector<HelpSection> sections;
};

const std::vector<HelpTopic>& help_topics();
// The topic of this name, or one made of the job spec's field of this name.
std::optional<HelpTopic> find_help_topic(const std::string& name);

std::string text_of(const HelpTopic& topic, size_t width, bool colour);
Json json_of(const HelpTopic& topic);

}  // namespace holdfast::ops
