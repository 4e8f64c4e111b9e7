#include "rendezvous/http/files/static_file.h"

#include <string>

namespace holdfast::rendezvous {
namespace {

// No scripts or styles within the page, and no other page around it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

bool has_copy(const HttpRequest& request, std::string_view etag) {
  const auto found = request.headers.find("if-none-match");
  return found != request.headers.end() && found->second.find(etag) != std::string::npos;
}

}  // namespace

HttpResponse answer_with(const StaticFile& file, const HttpRequest& request) {
  HttpResponse response;
  response.headers["ETag"] = file.etag;
  response.headers["Cache-Control"] = "no-cache";
  response.headers["Content-Security-Policy"] = kPolicy;
  response.headers["X-Content-Type-Options"] = "nosniff";
  response.headers["Referrer-Policy"] = "no-referrer";
  if (has_copy(request, file.etag)) {
    response.status = 304;
    response.content_type.clear();
  } else {
    response.body = file.bytes;
    response.content_type = file.content_type;
  }
  return response;
}

}  // namespace holdfast::rendezvous
