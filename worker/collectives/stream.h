// The bytes on a ring connection: operations, one after the other, each a header and its chunks.
//
//   header   40 bytes: magic "HFop", kind (1), element (1), checksums (1), 0 (1), root (4), 0 (4),
//            operation number (8), bytes (8), chunk bytes (8)
//   chunk    its bytes, then, with checksums, the XXH3-64 of them (8)
// Numbers are little-endian. How many chunks there are, and how long each is, follows from the header and the ranks
// (schedule.h), so nothing else is sent. Ranks that disagree about what they are doing meet at the header: each must get
// exactly the one that it sends itself. A chunk's checksum is made where its bytes came to be and is passed on with them,
// so it also covers the memory of the ranks between; it finds what TCP's 16 bits miss, not what an adversary alters.
// All-reduce and reduce-scatter leave checksums out on connections within a node (unless told otherwise): there is no network
// to doubt, and there they would cost 20 to 30 % of the rate, being one more pass over the bytes where memory is the limit. At
// 10 Gbit/s they hide behind the network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/collectives/schedule.h"
#include "worker/transport/transport.h"

namespace holdfast::worker {

struct Operation {
  enum class Kind : uint8_t {
    kAllReduce = 1,
    kAllGatherSizes = 2,
    kAllGather = 3,
    kBroadcast = 4,
    kRelay = 5,
    kAllToAll = 6,
    kReduceScatter = 7
  };
  Kind kind;
  Element element = Element::kByte;
  int32_t root = 0;       // of a broadcast; of a reduce-scatter a digest of its parts
  bool checksums = true;  // of this connection
  uint64_t number = 0;    // counts the communicator's operations
  uint64_t bytes = 0;  // the buffer; for all-gather the sum of all blocks; for all-to-all of those of one rank; for relay what
                       // goes over this connection
  uint64_t chunk_bytes = 0;

  bool sums() const { return kind == Kind::kAllReduce || kind == Kind::kReduceScatter; }
};

constexpr size_t kHeaderBytes = 40;
constexpr size_t kChecksumBytes = 8;
using Header = std::array<std::byte, kHeaderBytes>;

Header encode(const Operation& operation);
std::string describe(const Operation& operation);  // "all-reduce no. 17 of 120571392 bytes of float32"
// The difference between the two headers, in words for people.
std::string explain_difference(const Operation& expected, const Header& received);

// Receives an operation's header and incoming chunks; checks each, and adds or stores it.
class IncomingStream {
 public:
  IncomingStream(Connection& from, const Operation& operation, std::span<const IncomingChunk> chunks);
  // Returns the number of bytes that came. Also stops after a chunk is done, so that it can be sent on. An unexpected header
  // or a wrong checksum is kFailed.
  TransportResult<size_t> pump();
  bool complete() const { return header_done_ && chunks_done_ == chunks_.size(); }
  size_t chunks_done() const { return chunks_done_; }
  // The checksums of the chunks that are done; none in a stream without checksums.
  std::span<const uint64_t> checksums() const { return checksums_; }
  size_t payload_bytes() const { return payload_bytes_; }

 private:
  TransportResult<bool> receive_rest(std::span<std::byte> whole, size_t before);
  TransportResult<bool> receive_header();
  TransportResult<bool> receive_chunk();
  TransportResult<bool> verify_chunk(std::span<const std::byte> payload);

  Connection& from_;
  Operation operation_;
  std::span<const IncomingChunk> chunks_;
  Header header_{};
  bool header_done_ = false;
  size_t chunks_done_ = 0;
  size_t received_ = 0;  // of the header or the present chunk with its checksum
  std::array<std::byte, kChecksumBytes> checksum_{};
  std::vector<uint64_t> checksums_;
  size_t payload_bytes_ = 0;
  size_t moved_ = 0;
};

// Sends an operation's header and outgoing chunks, as far as the socket and the incoming stream allow.
class OutgoingStream {
 public:
  OutgoingStream(Connection& to, const Operation& operation, std::span<const OutgoingChunk> chunks);
  // Returns the number of bytes that went. `incoming` is the other connection's stream, as far as it came.
  TransportResult<size_t> pump(const IncomingStream& incoming);
  bool complete() const { return next_ == chunks_.size() && !header_pending_ && !chunk_open_; }
  bool blocked() const { return blocked_; }  // the socket took no more; else it waits for an incoming chunk
  size_t payload_bytes() const { return payload_bytes_; }

 private:
  bool open_chunk(const IncomingStream& incoming);
  TransportResult<bool> send_header();
  TransportResult<bool> send_chunk();
  TransportResult<bool> send_rest(std::span<const std::byte> whole, size_t before, bool more);

  Connection& to_;
  Header header_;
  bool checksums_;
  std::span<const OutgoingChunk> chunks_;
  size_t next_ = 0;             // the chunk being sent, or to be sent next
  bool header_pending_ = true;  // at most one of the header and a chunk is open, `sent_` bytes into it
  bool chunk_open_ = false;
  size_t sent_ = 0;  // with the checksum
  uint64_t checksum_ = 0;
  bool blocked_ = false;
  size_t payload_bytes_ = 0;
  size_t moved_ = 0;
};

}  // namespace holdfast::worker
