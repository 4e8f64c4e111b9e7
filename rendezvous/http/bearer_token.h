// The secret of a request's `Authorization: Bearer SECRET`.
#pragma once

#include <string>

#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {

std::string bearer_token(const HttpRequest& request);  // "" where there is none

}  // namespace holdfast::rendezvous
