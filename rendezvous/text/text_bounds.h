// How long texts of workers may be that the service keeps and shows.
#pragma once

#include <cstddef>
#include <string>

namespace holdfast::rendezvous {

inline constexpr size_t kLogTextBytesMax = 16 << 10;   // of a log line
inline constexpr size_t kEventTextBytesMax = 8 << 10;  // of an event's message
inline constexpr size_t kReasonBytesMax = 2 << 10;     // of a reason that goes into events together with others
inline constexpr size_t kWordBytesMax = 64;            // of a level, of an event's kind

// The text, cut before the first character (of UTF-8) that does not fit, with a note of how much is gone.
std::string shortened(std::string text, size_t bytes_max);

}  // namespace holdfast::rendezvous
