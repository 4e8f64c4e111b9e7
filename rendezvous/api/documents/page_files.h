// The files of the page, embedded into the program: rendezvous/page/CMakeLists.txt names them.
#pragma once

#include <string_view>

namespace holdfast::rendezvous {

struct PageFile {
  std::string_view name, content_type, bytes;
  std::string_view etag;  // a digest of the bytes, in quotes as HTTP wants it
};

// `name`: "index.html", "main.js", …; null when there is no such file.
const PageFile* find_page_file(std::string_view name);

}  // namespace holdfast::rendezvous
