// A file that is within the program, answered over HTTP: one of a page's. embed.cmake makes them. Pure.
#pragma once

#include <string_view>

#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {

struct StaticFile {
  std::string_view name, content_type, bytes;
  std::string_view etag;  // a digest of the bytes, in quotes as HTTP wants it
};

// The file; or 304 for a reader that has it. A browser takes what a page needs from the same server alone, and shows it within
// no other page.
HttpResponse answer_with(const StaticFile& file, const HttpRequest& request);

}  // namespace holdfast::rendezvous
