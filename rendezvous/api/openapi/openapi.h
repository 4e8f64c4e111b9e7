// The API's description (OpenAPI 3.1), kept by hand in rendezvous/api/openapi/openapi.json and part of the program.
#pragma once

#include <string_view>

namespace holdfast::rendezvous {

std::string_view openapi_document();

}  // namespace holdfast::rendezvous
