// An Error in one expression: return fail(Error::Code::kCorrupt, "{}: byte {}: the magic is wrong", name, offset);
#pragma once

#include <fmt/format.h>

#include <utility>

#include "storage/object_store.h"

namespace holdfast::storage {

template <typename... Arguments>
tl::unexpected<Error> fail(Error::Code code, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return tl::unexpected(Error{code, fmt::format(format, std::forward<Arguments>(arguments)...)});
}

}  // namespace holdfast::storage
