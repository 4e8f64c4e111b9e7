#include "rendezvous/text/sha256.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "rendezvous/text/hex.h"

namespace holdfast::rendezvous {

std::string sha256_hex(std::span<const std::byte> bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return hex(std::as_bytes(std::span(digest)));
}

bool is_sha256_hex(std::string_view text) {
  return text.size() == 2 * SHA256_DIGEST_LENGTH &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace holdfast::rendezvous
