// The files of the page, embedded into the program: rendezvous/page/CMakeLists.txt names them.
#pragma once

#include <string_view>

#include "rendezvous/http/files/static_file.h"

namespace holdfast::rendezvous {

// `name`: "index.html", "main.js", …; null when there is no such file.
const StaticFile* find_page_file(std::string_view name);

}  // namespace holdfast::rendezvous
