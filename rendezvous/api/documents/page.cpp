#include "rendezvous/api/documents/page.h"

#include <fmt/format.h>

#include <string>

#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/documents/page_files.h"

namespace holdfast::rendezvous {
namespace {

// Only what this service serves itself, no scripts or styles within the page, and no other page around it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

bool has_copy(const HttpRequest& request, std::string_view etag) {
  const auto found = request.headers.find("if-none-match");
  return found != request.headers.end() && found->second.find(etag) != std::string::npos;
}

}  // namespace

void get_page(Call& call) {
  const std::string name = call.arguments.empty() ? "index.html" : call.arguments[0];
  const PageFile* file = find_page_file(name);
  if (file == nullptr) return call.answer(problem(404, "not_found", fmt::format("the page has no file {}", name)));
  HttpResponse response;
  response.headers["ETag"] = file->etag;
  response.headers["Cache-Control"] = "no-cache";
  response.headers["Content-Security-Policy"] = kPolicy;
  response.headers["X-Content-Type-Options"] = "nosniff";
  response.headers["Referrer-Policy"] = "no-referrer";
  if (has_copy(call.request, file->etag)) {
    response.status = 304;
    response.content_type.clear();
  } else {
    response.body = file->bytes;
    response.content_type = file->content_type;
  }
  call.answer(std::move(response));
}

}  // namespace holdfast::rendezvous
