// A request's id: what the client gave, or one of ours; it stands in the answer's X-Request-Id and in problems, so that a
// person who was refused and the one who looks into the log can speak of the same request.
#pragma once

#include <string>

#include "rendezvous/http_server.h"

namespace holdfast::rendezvous {

// X-Request-Id, where it is a word of at most 64 letters, digits and ._- ; else a new one.
std::string request_id(const HttpRequest& request);
void name_answer(HttpResponse& response, const std::string& id);

}  // namespace holdfast::rendezvous
