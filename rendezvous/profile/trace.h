// A merged profile as text in Chrome's trace event format (JSON object form), which Perfetto and chrome://tracing open.
//
// A rank is a process, each of its threads a thread of it; a span is a complete event ("X") in microseconds since the first
// one, on the first rank's clock. The metadata say how far each clock may be off, which ranks are missing and what was dropped.
// Promises: pure; valid JSON whatever the names are.
#pragma once

#include <string>

#include "rendezvous/profile/merged.h"

namespace holdfast::rendezvous {

// `title` names the job and the profile.
std::string trace_text(const MergedProfile& merged, const std::string& title);

}  // namespace holdfast::rendezvous
