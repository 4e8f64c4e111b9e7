// Token files: admin.token and worker.token in the data directory.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace holdfast::rendezvous {

// The token in the file, which is made with mode 0600 when absent. The error names the file and what to do.
tl::expected<std::string, std::string> load_or_make_token(const std::string& path);

}  // namespace holdfast::rendezvous
