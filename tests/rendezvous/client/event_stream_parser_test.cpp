// Server-sent events, cut into pieces at every possible place.
#include "rendezvous/client/event_stream_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace holdfast::rendezvous {
namespace {

using ::testing::ElementsAre;
using Event = std::tuple<std::string, std::string, std::string>;

std::vector<Event> events_of(std::string_view text, size_t piece) {
  EventStreamParser parser;
  std::vector<Event> events;
  for (size_t at = 0; at < text.size(); at += piece) {
    parser.feed(text.substr(at, piece), [&](const std::string& id, const std::string& name, const std::string& data) {
      events.emplace_back(id, name, data);
      return true;
    });
  }
  return events;
}

TEST(EventStreamParser, GivesTheSameEventsWhereverThePiecesEnd) {
  const std::string text =
      ": a comment\n\nid: 1\nevent: worker_lost\ndata: {\"a\":1}\n\r\n"
      "id:2\r\ndata:first\r\ndata: second\r\n\r\n"
      "data\rdata:  two spaces\r\r"
      "retry: 10\nid: 4\n\n"
      "data: not whole";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    EXPECT_THAT(events_of(text, piece),
                ElementsAre(Event{"1", "worker_lost", "{\"a\":1}"}, Event{"2", "message", "first\nsecond"},
                            Event{"2", "message", "\n two spaces"}))
        << "in pieces of " << piece;
  }
}

TEST(EventStreamParser, StopsWhenToldTo) {
  EventStreamParser parser;
  int seen = 0;
  const auto state = parser.feed("data: 1\n\ndata: 2\n\n", [&](auto&, auto&, auto&) { return ++seen < 1; });
  EXPECT_EQ(state, EventStreamParser::State::kStopped);
  EXPECT_EQ(seen, 1);
}

TEST(EventStreamParser, AnEventHasABound) {
  EventStreamParser parser;
  const std::string piece(1 << 20, 'x');
  auto state = parser.feed("data: ", [](auto&, auto&, auto&) { return true; });
  for (int i = 0; i < 5 && state == EventStreamParser::State::kGoing; ++i) {
    state = parser.feed(piece, [](auto&, auto&, auto&) { return true; });
  }
  EXPECT_EQ(state, EventStreamParser::State::kTooLong);
}

}  // namespace
}  // namespace holdfast::rendezvous
