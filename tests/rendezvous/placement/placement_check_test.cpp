// A placement that breaks a promise is not handed out.
#include "rendezvous/placement/placement_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

namespace holdfast::rendezvous {
namespace {

// Three members; rank 0 holds chunk 0, rank 1 both. Chunk 0 is owned by 1 and 0, chunk 1 by 0 and 2.
struct Example {
  PlacementQuestion question{{10, 20}, 2, {{"a", 30, {true, false}}, {"b", 0, {true, true}}, {"c", 0, {}}}};
  Placement placement{2, 2, {1, 0, 0, 2}, {{1, 1, 0}, {1, 1, 2}}, false};
};

void is_refused_with(const std::string& sentence, const std::function<void(Example&)>& spoil) {
  Example example;
  require_sound(example.question, example.placement);
  spoil(example);
  try {
    require_sound(example.question, example.placement);
    ADD_FAILURE() << "nothing is said instead of: " << sentence;
  } catch (const std::logic_error& error) {
    EXPECT_EQ(error.what(), "broken placement: " + sentence);
  }
}

TEST(PlacementCheck, OwnersAreTooFewOrTooMany) {
  is_refused_with("2 chunks have 3 owners, 2 each: 2 each are expected", [](Example& e) { e.placement.owners.pop_back(); });
  is_refused_with("2 chunks have 2 owners, 1 each: 2 each are expected", [](Example& e) {
    e.placement.replicas = 1;
    e.placement.owners = {1, 0};
  });
}

TEST(PlacementCheck, OwnersAreNotThoseOfAChunk) {
  is_refused_with("chunk 1 is given to rank 3, which is no member", [](Example& e) { e.placement.owners[3] = 3; });
  is_refused_with("chunk 1 is given to rank -1, which is no member", [](Example& e) { e.placement.owners[2] = -1; });
  is_refused_with("chunk 1 is given to rank 0 twice", [](Example& e) { e.placement.owners[3] = 0; });
  is_refused_with("chunk 0 has the owners 2 and 0 in this order", [](Example& e) {
    e.question.replicas = 3;
    e.placement = {3, 3, {1, 2, 0, 0, 1, 2}, {}, false};
  });
}

TEST(PlacementCheck, ALimitIsPassed) {
  is_refused_with("rank 0 owns 30 bytes, and its limit is 29", [](Example& e) { e.question.members[0].bytes_max = 29; });
}

TEST(PlacementCheck, ACopyIsMissingOrTooMany) {
  is_refused_with("no copy of chunk 1 goes to its owner 2", [](Example& e) { e.placement.copies.pop_back(); });
  is_refused_with("no copy of chunk 1 goes to its owner 0",
                  [](Example& e) { std::swap(e.placement.copies[0], e.placement.copies[1]); });
  is_refused_with("3 copies are made, and 2 are needed", [](Example& e) { e.placement.copies.push_back({1, 1, 2}); });
}

TEST(PlacementCheck, ACopyComesFromNowhere) {
  is_refused_with("chunk 1 is to come from rank 0, which does not hold it", [](Example& e) { e.placement.copies[1].from = 0; });
  is_refused_with("chunk 1 is to come from rank 3, which does not hold it", [](Example& e) { e.placement.copies[1].from = 3; });
}

TEST(PlacementCheck, ASourceIsNamedThoughSomethingIsHeld) {
  is_refused_with("2 copies are made, and 0 are needed", [](Example& e) { e.placement.from_source = true; });
  is_refused_with("all comes from a source, and rank 0 holds chunks", [](Example& e) {
    e.placement.from_source = true;
    e.placement.copies.clear();
  });
}

}  // namespace
}  // namespace holdfast::rendezvous
