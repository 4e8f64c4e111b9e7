// The files of the page (rendezvous/page/), which are part of the program: its CMakeLists.txt names and embeds them.
#pragma once

#include <string_view>

namespace holdfast::rendezvous {

struct PageFile {
  std::string_view name, content_type, bytes;
  std::string_view etag;  // of the bytes, quoted as HTTP has it
};

// "index.html", "main.js", …; null where there is none of that name.
const PageFile* find_page_file(std::string_view name);

}  // namespace holdfast::rendezvous
