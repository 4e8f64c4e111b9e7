// SHA-256 (FIPS 180-4) as 64 hex digits: names bytes by their content.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::rendezvous {

std::string sha256_hex(std::span<const std::byte> bytes);
bool is_sha256_hex(std::string_view text);  // 64 digits, the letters small

}  // namespace holdfast::rendezvous
