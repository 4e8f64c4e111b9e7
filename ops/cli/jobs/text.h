// A job and what happens to it in words, on one line. Pure: JSON as the service shows it goes in, text comes out.
#pragma once

#include <string>
#include <vector>

#include "ops/cli/command/api.h"
#include "ops/cli/terminal/terminal.h"

namespace holdfast::ops {

bool is_final(const std::string& state);  // succeeded, failed or cancelled
Style style_of_state(const std::string& state);

// "waiting (1 of 2 workers are here)"
std::string state_text(const Json& job);
// "step 120/2000 (6%)  loss 3.4123  10,240 tokens/s  ETA 2m 14s  2 workers  checkpoint 100 (14s ago)"
std::string progress_line(const Json& job);
// "12/100", or "0/?" while the number of steps is not known.
bool serves(const Json& job);  // its workers write texts, and it does no steps
std::string steps_text(const Json& job);
// Two lines of at most `width` columns; where there is no room, the least important parts are left out:
//   ███████░░░░░░░░░░░░░░░░░   32%  step 640/2000  ETA 2m 14s
//   loss 3.4123  10,240 tokens/s  2 workers  checkpoint 600 (14s ago)
// While the job does not run, its state stands before the bar and the reason below it.
std::vector<std::string> progress_lines(const Json& job, size_t width, bool colour);
// "j1 failed after step 120/2000: no worker can read its data"
std::string final_line(const Json& job);
// "16:55:03  worker_lost  w2 was killed by signal 9"
std::string event_line(const Json& event);
// The labels of a job or a node, "zone=a, rack=3"; "" when it has none.
std::string labels_text(const Json& labelled, const char* separator);
// "16:55:03" of an RFC 3339 time.
std::string clock_text(const std::string& rfc3339);

}  // namespace holdfast::ops
