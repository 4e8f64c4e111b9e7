#include "rendezvous/api/documents/page.h"

#include <fmt/format.h>

#include <string>

#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/documents/page_files.h"

namespace holdfast::rendezvous {
namespace {

void answer_with_file(Call& call, const std::string& name) {
  const StaticFile* file = find_page_file(name);
  if (file == nullptr) return call.answer(problem(404, "not_found", fmt::format("the page has no file {}", name)));
  call.answer(answer_with(*file, call.request));
}

}  // namespace

void get_page(Call& call) {
  answer_with_file(call, call.arguments.empty() ? "index.html" : call.arguments[0]);
}

void get_playground(Call& call) {
  answer_with_file(call, "playground.html");
}

}  // namespace holdfast::rendezvous
