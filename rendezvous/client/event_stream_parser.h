// Parses server-sent events from a byte stream (WHATWG HTML, section 9.2.6), however the stream is cut into pieces.
//
// Refuses an event of more than 4 MiB. Thread: one at a time.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace holdfast::rendezvous {

class EventStreamParser {
 public:
  // Arguments: id, event name ("message" where the stream gives none), data. Returns false to stop.
  using OnEvent = std::function<bool(const std::string&, const std::string&, const std::string&)>;
  enum class State { kGoing, kStopped, kTooLong };

  // Takes the next bytes and calls `on_event` for each event that ends in them. kStopped: `on_event` returned false.
  // kTooLong: an event is longer than the bound; do not call feed() again.
  State feed(std::string_view bytes, const OnEvent& on_event);

 private:
  static constexpr size_t kEventBytesMax = 4 << 20;
  State end_of_line(const OnEvent& on_event);

  std::string line_, id_, event_, data_;
  bool has_data_ = false;
  bool after_cr_ = false;  // the line ended in \r: a following \n belongs to that line's end
};

}  // namespace holdfast::rendezvous
