// A request's id, from the client or made here. The answer's X-Request-Id and problem carry it, so that a user who was refused
// and the operator who reads the log can speak of the same request.
#pragma once

#include <string>

#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {

// The request's X-Request-Id if it is a word of at most 64 letters, digits and ._- ; else a new id.
std::string request_id(const HttpRequest& request);
void name_answer(HttpResponse& response, const std::string& id);

}  // namespace holdfast::rendezvous
