// Random secrets, and the token files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace holdfast::rendezvous {

// From the kernel's random source, as hex digits. Throws std::system_error when there is none.
std::string random_hex(size_t bytes);

// Takes as long whatever the place of the first difference.
bool equal_secrets(std::string_view a, std::string_view b);

// The token in the file, which is made with mode 0600 when absent. The error names the file and what to do.
tl::expected<std::string, std::string> load_or_make_token(const std::string& path);

}  // namespace holdfast::rendezvous
