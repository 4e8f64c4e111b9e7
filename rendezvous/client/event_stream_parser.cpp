// A line ends in \n, \r or \r\n; the border between two pieces may be anywhere, also between \r and \n.
#include "rendezvous/client/event_stream_parser.h"

namespace holdfast::rendezvous {

EventStreamParser::State EventStreamParser::feed(std::string_view bytes, const OnEvent& on_event) {
  for (const char c : bytes) {
    const bool second_half = after_cr_ && c == '\n';
    after_cr_ = c == '\r';
    if (second_half) continue;
    if (c == '\n' || c == '\r') {
      if (end_of_line(on_event) == State::kStopped) return State::kStopped;
      continue;
    }
    line_ += c;
    if (line_.size() + data_.size() > kEventBytesMax) return State::kTooLong;
  }
  return State::kGoing;
}

EventStreamParser::State EventStreamParser::end_of_line(const OnEvent& on_event) {
  if (line_.empty()) {  // the event is whole
    const bool go_on = !has_data_ || on_event(id_, event_.empty() ? "message" : event_, data_);
    event_.clear();
    data_.clear();
    has_data_ = false;
    return go_on ? State::kGoing : State::kStopped;
  }
  const size_t colon = line_.find(':');
  const std::string field = line_.substr(0, colon);
  std::string value = colon == std::string::npos ? "" : line_.substr(colon + 1);
  if (value.starts_with(' ')) value.erase(0, 1);
  line_.clear();
  if (field == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  } else if (field == "event") {
    event_ = value;
  } else if (field == "id") {
    id_ = value;
  }  // comments (no name before the colon) and unknown fields are ignored
  return State::kGoing;
}

}  // namespace holdfast::rendezvous
