// The files of the playground, embedded into the program: CMakeLists.txt names them.
#pragma once

#include <string_view>

#include "rendezvous/http/files/static_file.h"

namespace holdfast::worker {

// `name`: "playground.html", "playground.js", …; null when there is no such file.
const rendezvous::StaticFile* find_playground_file(std::string_view name);

}  // namespace holdfast::worker
