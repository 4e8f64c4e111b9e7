// Shares: how many bytes each member ought to own. Private to the placement.
//
// Water is poured into nodes, and in each into its members, to one level everywhere: a member holds no more than its room, a
// node no more than `most` and no less than `least`. With B bytes of chunks, k owners each, room(j) the sum of a node's rooms:
//   if sum over j of min(B, room(j)) >= k B     each copy can be on its own node: least(j) = 0, most(j) = min(B, room(j))
//   else                                        some nodes have two: least(j) = min(B, room(j)), most(j) = room(j)
// The level is the lowest one at which all k B bytes are in; a share is rounded up to a byte.
#pragma once

#include <cstdint>
#include <vector>

namespace holdfast::rendezvous {

// Members and nodes as numbers.
struct Rooms {
  std::vector<int64_t> room;  // by member: the bytes that it may be dealt, 0 to B
  std::vector<int32_t> node;  // by member: 0 to nodes - 1
  int32_t nodes = 0;
};

struct Shares {
  std::vector<int64_t> bytes;  // by member
  bool apart = false;          // the first case: each copy on its own node
  std::vector<bool> whole;     // by node: it has room for B; in the second case it has each chunk at least once
};

// `total`: B. The rooms must be at least k B together.
Shares shares_of(const Rooms& rooms, int64_t total, int32_t k);

}  // namespace holdfast::rendezvous
