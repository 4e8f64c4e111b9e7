#include "rendezvous/protocol/plain_text.h"

namespace holdfast::rendezvous {

bool has_control_characters(const std::string& text) {
  unsigned char before = 0;
  for (const char character : text) {
    const auto c = static_cast<unsigned char>(character);
    if (c < 0x20 || c == 0x7f || (before == 0xc2 && c >= 0x80 && c < 0xa0)) return true;
    before = c;
  }
  return false;
}

}  // namespace holdfast::rendezvous
