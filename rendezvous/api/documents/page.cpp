#include "rendezvous/api/documents/page.h"

#include <fmt/format.h>

#include <string>

#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/documents/page_files.h"

namespace holdfast::rendezvous {

void get_page(Call& call) {
  const std::string name = call.arguments.empty() ? "index.html" : call.arguments[0];
  const StaticFile* file = find_page_file(name);
  if (file == nullptr) return call.answer(problem(404, "not_found", fmt::format("the page has no file {}", name)));
  call.answer(answer_with(*file, call.request));
}

}  // namespace holdfast::rendezvous
