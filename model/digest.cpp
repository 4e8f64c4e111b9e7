#include "model/digest.h"

#include <xxhash.h>

#include <cstdint>
#include <new>

namespace holdfast::model {

namespace {
XXH3_state_t* xxh3(void* state) {
  return static_cast<XXH3_state_t*>(state);
}
}  // namespace

void Digest128::Free::operator()(void* state) const noexcept {
  XXH3_freeState(xxh3(state));
}

Digest128::Digest128() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(xxh3(state_.get()));
}

void Digest128::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(xxh3(state_.get()), bytes.data(), bytes.size());
}

std::string Digest128::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(xxh3(state_.get())));
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace holdfast::model
