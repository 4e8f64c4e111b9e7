#include "rendezvous/http/bearer_token.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace holdfast::rendezvous {

std::string bearer_token(const HttpRequest& request) {
  const auto found = request.headers.find("authorization");
  if (found == request.headers.end()) return "";
  const std::string& value = found->second;
  constexpr std::string_view kScheme = "bearer ";
  const bool bearer = value.size() > kScheme.size() &&
                      std::equal(kScheme.begin(), kScheme.end(), value.begin(),
                                 [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
  return bearer ? value.substr(kScheme.size()) : "";
}

}  // namespace holdfast::rendezvous
