// The page's files: the same for everybody, so they go without a token. The browser asks each time whether its copy is the
// newest.
#include <fmt/format.h>

#include <string>

#include "rendezvous/page_files.h"
#include "rendezvous/service_impl.h"

namespace holdfast::rendezvous {
namespace {

// Nothing but what this service itself serves, no scripts or styles within the page, and no page around it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

bool has_copy(const HttpRequest& request, std::string_view etag) {
  const auto found = request.headers.find("if-none-match");
  return found != request.headers.end() && found->second.find(etag) != std::string::npos;
}

}  // namespace

void Service::Impl::get_page(Call& call) {
  const std::string name = call.arguments.empty() ? "index.html" : call.arguments[0];
  const PageFile* file = find_page_file(name);
  if (file == nullptr) return answer(call, problem(404, "not_found", fmt::format("the page has no file {}", name)));
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
  answer(call, std::move(response));
}

}  // namespace holdfast::rendezvous
