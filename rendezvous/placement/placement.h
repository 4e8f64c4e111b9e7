// The placement: which ranks own which chunks of a sharded job's training state, and which copies make it so.
//
// The training state (parameters, AdamW's moments) is cut into chunks of at most 65,536 elements of one tensor, at any world
// size the same. Each chunk has k = min(R, N) owners, R the job's `replicas` and N its world size: they receive the same sum of
// gradients and apply the same update, so a chunk outlives k - 1 of them. Where N <= R everybody owns everything.
//
// Promises. B: the bytes of all chunks; b: those of the largest one; a *share*: the bytes that a member ought to own.
//   Owners     are k different members; the first of a chunk's owners is its primary, who reduces and sends it.
//   Limits     hold. A limit below B is counted 2 b lower, for chunks are not cut: that is the member's *room*. A member
//              without a limit, or with one of B or more, has room for B.
//   Nodes      The k owners lie on k different nodes, a node having at most B. Where the nodes' rooms are too small for that
//              (there are fewer than k nodes, or limits bind), a node with room for B has each chunk at least once, and one
//              with less has chunks once until it is full: so the sum over the chunks of bytes times nodes is as large as
//              rooms allow, to within 2 b for each member.
//   Loads      Shares are as even as rooms and nodes allow (shares.h). The differences between what members own and their
//              shares are within 2 b of each other.
//   Primaries  Nobody is primary of over 2 b more than another owner of one of its chunks, who could take that over; nor,
//              where chunks are of one size, than the last of a chain of such owners.
//   Copies     go from a member that holds the chunk now, owner or not, to an owner that does not, each once. The bytes that
//              members send are balanced as the primaries are. With nothing changed there are no copies. After a loss they
//              are the lost copies, and more only where the lost chunks cannot fill the shares. A joiner receives its share
//              to within 2 b and, where all other shares fall by the same amount, nobody else receives anything. In general,
//              chunks being of one size, the copies are those of the cheapest deal of exact shares (a minimum-cost flow),
//              rarely one more: loads need not be exact.
//   Partners   Where there is a choice, any two members have as much in common as any others: the copies that a lost member
//              leaves behind come from all.
//   Nothing    is lost that somebody holds.
// Pure: the same question has the same answer, whatever was asked before. Thread: any.
// Time grows with chunks * k * N: 25,000 chunks, 16 members and k = 2 take 4 to 8 ms, and a join 18 ms.
//
// Refuses, with a sentence: no chunks, a chunk of no bytes, no members, R < 1, a negative limit, holdings of another number of
// chunks; rooms that are too small together. That R is above N is no error here: see Placement::replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

namespace holdfast::rendezvous {

struct PlacementMember {
  std::string node;         // its machine: a dead node takes all its members with it
  int64_t bytes_max = 0;    // that it can own; 0: no limit
  std::vector<bool> holds;  // by chunk: it has the chunk, of the right step; empty: it has none
};

struct PlacementQuestion {
  std::vector<int64_t> chunk_bytes;      // (chunks)
  int64_t replicas = 1;                  // R
  std::vector<PlacementMember> members;  // by rank
};

struct ChunkCopy {
  int32_t chunk = 0, from = 0, to = 0;  // from and to are ranks
};

struct Placement {
  int32_t replicas = 0;           // k, the owners of each chunk: below R where there are fewer members
  int32_t nodes_min = 0;          // the fewest nodes that a chunk's owners lie on: so many nodes' deaths lose a chunk
  std::vector<int32_t> owners;    // (chunks, k): ranks; first the chunk's primary, then the others, ascending
  std::vector<ChunkCopy> copies;  // by chunk, then by `to`
  bool from_source = false;       // nobody holds anything (a job's start): owners read from a source, and there are no copies

  std::span<const int32_t> owners_of(size_t chunk) const {
    const auto k = static_cast<size_t>(replicas);
    return std::span(owners).subspan(chunk * k, k);
  }
};

// Chunks that no member holds, though something is held: the job goes back to a checkpoint.
struct LostChunks {
  std::vector<int32_t> chunks;  // ascending
};

// A placement that breaks a promise is not handed out: std::logic_error (placement_check.h).
tl::expected<std::variant<Placement, LostChunks>, std::string> place(const PlacementQuestion& question);

}  // namespace holdfast::rendezvous
