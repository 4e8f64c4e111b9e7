// Server-sent events out of a byte stream (WHATWG HTML, section 9.2.6), whatever the pieces it arrives in.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace holdfast::rendezvous {

class EventStreamParser {
 public:
  // id, event name ("message" where none was given), data.
  using OnEvent = std::function<bool(const std::string&, const std::string&, const std::string&)>;
  enum class State { kGoing, kStopped, kTooLong };

  // Takes the next bytes and calls `on_event` for each event that ends in them. kStopped: it returned false.
  // kTooLong: an event passed the bound; nothing more may be fed.
  State feed(std::string_view bytes, const OnEvent& on_event);

 private:
  static constexpr size_t kEventBytesMax = 4 << 20;
  State end_of_line(const OnEvent& on_event);

  std::string line_, id_, event_, data_;
  bool has_data_ = false;
  bool after_cr_ = false;  // the line ended in \r: a \n that follows belongs to it
};

}  // namespace holdfast::rendezvous
