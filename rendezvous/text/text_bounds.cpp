// Cuts at the boundary of a character: continuation bytes are 10xxxxxx.
#include "rendezvous/text/text_bounds.h"

#include <fmt/format.h>

namespace holdfast::rendezvous {

std::string shortened(std::string text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t end = bytes_max;
  while (end > 0 && end + 3 > bytes_max && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  const size_t gone = text.size() - end;
  text.resize(end);
  return text + fmt::format(" … ({} more bytes were cut off)", gone);
}

}  // namespace holdfast::rendezvous
