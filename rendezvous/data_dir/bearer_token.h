// Token files: admin.token and worker.token in the data directory.
//
// Thread: any, before the service begins.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace holdfast::rendezvous {

// The token in the file `path`. A missing file is made, with a new token and mode 0600. The error names the file and what to
// do.
tl::expected<std::string, std::string> load_or_make_token(const std::string& path);

}  // namespace holdfast::rendezvous
