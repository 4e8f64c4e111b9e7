// A tar archive piece by piece: a head before each file's bytes, padding behind them, the end behind all.
//
// Promises: POSIX's ustar, read by every tar; a file of 8 GiB or more has its size in GNU's binary form, which GNU tar, bsdtar
// and Python read. No time is in it: the same files give the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::model {

inline constexpr size_t kTarNameBytesMax = 100;

// Precondition: `name` has at most kTarNameBytesMax bytes.
std::string tar_head(std::string_view name, int64_t bytes);
std::string tar_padding(int64_t bytes);  // behind a file of so many bytes
std::string tar_end();

}  // namespace holdfast::model
