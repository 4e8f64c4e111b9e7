// The bytes of an operation on one connection: state machines that go as far as the socket lets them.
#include "worker/collectives/stream.h"

#include <bit>
#include <cstring>

#include "storage/checksum.h"
#include "worker/collectives/reduce.h"

namespace holdfast::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "the ring's bytes are those of a little-endian machine");

constexpr char kHeaderMagic[4] = {'H', 'F', 'o', 'p'};

const char* name(Operation::Kind kind) {
  switch (kind) {
    case Operation::Kind::kAllReduce:
      return "all-reduce";
    case Operation::Kind::kAllGatherSizes:
      return "all-gather (sizes)";
    case Operation::Kind::kAllGather:
      return "all-gather";
    case Operation::Kind::kBroadcast:
      return "broadcast";
    case Operation::Kind::kRelay:
      return "relay";
    case Operation::Kind::kAllToAll:
      return "all-to-all";
    case Operation::Kind::kReduceScatter:
      return "reduce-scatter";
  }
  return "unknown operation";
}

const char* name(Element element) {
  switch (element) {
    case Element::kByte:
      return "";
    case Element::kInt32:
      return " of int32";
    case Element::kFloat:
      return " of float32";
    case Element::kInt16:
      return " of int16";
    case Element::kBFloat16:
      return " of bfloat16";
    case Element::kFloat16:
      return " of float16";
  }
  return " of unknown elements";
}

template <typename T>
T field(const Header& header, size_t offset) {
  T value;
  std::memcpy(&value, header.data() + offset, sizeof value);
  return value;
}

template <typename T>
void put(Header& header, size_t offset, T value) {
  std::memcpy(header.data() + offset, &value, sizeof value);
}

Operation decode(const Header& header) {
  return {.kind = static_cast<Operation::Kind>(field<uint8_t>(header, 4)),
          .element = static_cast<Element>(field<uint8_t>(header, 5)),
          .root = field<int32_t>(header, 8),
          .checksums = field<uint8_t>(header, 6) != 0,
          .number = field<uint64_t>(header, 16),
          .bytes = field<uint64_t>(header, 24),
          .chunk_bytes = field<uint64_t>(header, 32)};
}

}  // namespace

Header encode(const Operation& operation) {
  Header header{};
  std::memcpy(header.data(), kHeaderMagic, sizeof kHeaderMagic);
  put(header, 4, operation.kind);
  put(header, 5, operation.element);
  put(header, 6, static_cast<uint8_t>(operation.checksums));
  put(header, 8, operation.root);
  put(header, 16, operation.number);
  put(header, 24, operation.bytes);
  put(header, 32, operation.chunk_bytes);
  return header;
}

std::string describe(const Operation& operation) {
  std::string text = std::string(name(operation.kind)) + " no. " + std::to_string(operation.number) + " of " +
                     std::to_string(operation.bytes) + " bytes" + name(operation.element);
  if (operation.kind == Operation::Kind::kBroadcast) text += " from rank " + std::to_string(operation.root);
  return text;
}

std::string explain_difference(const Operation& expected, const Header& received) {
  if (std::memcmp(received.data(), kHeaderMagic, sizeof kHeaderMagic) != 0)
    return "the bytes that came are not the start of an operation";
  const Operation theirs = decode(received);
  std::string text = "it is at " + describe(theirs) + ", while this rank is at " + describe(expected);
  if (theirs.chunk_bytes != expected.chunk_bytes) {
    text += " (its chunks have " + std::to_string(theirs.chunk_bytes) + " bytes, here " + std::to_string(expected.chunk_bytes) +
            ")";
  }
  if (theirs.checksums != expected.checksums) text += theirs.checksums ? " (with checksums)" : " (without checksums)";
  if (theirs.kind == Operation::Kind::kReduceScatter && theirs.root != expected.root)
    text += " (other ranks are to have its sums)";
  return text + "; all ranks must call the same collectives in the same order";
}

OutgoingStream::OutgoingStream(Connection& to, const Operation& operation, std::span<const OutgoingChunk> chunks)
    : to_(to), header_(encode(operation)), checksums_(operation.checksums), chunks_(chunks) {}

TransportResult<size_t> OutgoingStream::pump(const IncomingStream& incoming) {
  moved_ = 0;
  blocked_ = false;
  while (!complete()) {
    if (!header_pending_ && !chunk_open_ && !open_chunk(incoming)) break;
    const auto done = header_pending_ ? send_header() : send_chunk();
    if (!done) return tl::make_unexpected(done.error());
    if (!*done) break;
  }
  return moved_;
}

bool OutgoingStream::open_chunk(const IncomingStream& incoming) {
  const OutgoingChunk& chunk = chunks_[next_];
  if (incoming.chunks_done() < chunk.after) return false;
  if (checksums_) {
    const auto known = incoming.checksums();
    checksum_ = chunk.forwarded && !known.empty() ? known[chunk.after - 1] : storage::checksum_64(chunk.bytes);
  }
  chunk_open_ = true;
  sent_ = 0;
  return true;
}

TransportResult<bool> OutgoingStream::send_header() {
  auto done = send_rest(header_, 0, !chunks_.empty() && chunks_.front().after == 0);
  if (done && *done) header_pending_ = false;
  return done;
}

TransportResult<bool> OutgoingStream::send_chunk() {
  const auto payload = chunks_[next_].bytes;
  if (sent_ < payload.size()) {
    const size_t before = sent_;
    auto done = send_rest(payload, 0, checksums_);
    payload_bytes_ += sent_ - before;
    if (!done || !*done) return done;
  }
  if (checksums_) {
    auto done = send_rest(std::as_bytes(std::span(&checksum_, 1)), payload.size(), false);
    if (!done || !*done) return done;
  }
  chunk_open_ = false;
  ++next_;
  return true;
}

// Sends the rest of `whole`, which follows `before` bytes that were sent earlier. Returns whether all of it is out.
TransportResult<bool> OutgoingStream::send_rest(std::span<const std::byte> whole, size_t before, bool more) {
  const auto n = to_.send_some(whole.subspan(sent_ - before), more);
  if (!n) return tl::make_unexpected(n.error());
  sent_ += *n;
  moved_ += *n;
  blocked_ = sent_ - before < whole.size();
  return !blocked_;
}

IncomingStream::IncomingStream(Connection& from, const Operation& operation, std::span<const IncomingChunk> chunks)
    : from_(from), operation_(operation), chunks_(chunks) {
  if (operation.checksums) checksums_.reserve(chunks.size());
}

TransportResult<size_t> IncomingStream::pump() {
  moved_ = 0;
  if (!header_done_) {
    const auto done = receive_header();
    if (!done) return tl::make_unexpected(done.error());
    if (!*done) return moved_;
  }
  if (!complete()) {
    const auto done = receive_chunk();
    if (!done) return tl::make_unexpected(done.error());
  }
  return moved_;
}

// Fills `whole`, which follows `before` bytes that were received earlier. Returns whether it is full.
TransportResult<bool> IncomingStream::receive_rest(std::span<std::byte> whole, size_t before) {
  const auto n = from_.receive_some(whole.subspan(received_ - before));
  if (!n) return tl::make_unexpected(n.error());
  received_ += *n;
  moved_ += *n;
  return received_ - before == whole.size();
}

TransportResult<bool> IncomingStream::receive_header() {
  auto done = receive_rest(header_, 0);
  if (!done || !*done) return done;
  if (header_ != encode(operation_)) {
    return tl::make_unexpected(TransportError{TransportError::Kind::kFailed, explain_difference(operation_, header_)});
  }
  header_done_ = true;
  received_ = 0;
  return true;
}

TransportResult<bool> IncomingStream::receive_chunk() {
  const IncomingChunk& chunk = chunks_[chunks_done_];
  const size_t size = chunk.bytes.size();
  if (received_ < size) {
    auto done = receive_rest(chunk.bytes, 0);
    if (!done || !*done) return done;
  }
  if (operation_.checksums) {
    auto done = receive_rest(checksum_, size);
    if (!done || !*done) return done;
    if (auto intact = verify_chunk(chunk.bytes); !intact) return intact;
  }
  if (chunk.addend != nullptr) add_elements(chunk.bytes, std::span(chunk.addend, size), operation_.element);
  ++chunks_done_;
  payload_bytes_ += size;
  received_ = 0;
  return true;
}

TransportResult<bool> IncomingStream::verify_chunk(std::span<const std::byte> payload) {
  uint64_t expected = 0;
  std::memcpy(&expected, checksum_.data(), sizeof expected);
  if (storage::checksum_64(payload) != expected) {
    return tl::make_unexpected(
        TransportError{TransportError::Kind::kFailed, "the checksum of chunk " + std::to_string(chunks_done_) + " (" +
                                                          std::to_string(payload.size()) +
                                                          " bytes) is wrong: its bytes were altered on the way"});
  }
  checksums_.push_back(expected);
  return true;
}

}  // namespace holdfast::worker
