#include "worker/collectives/stream.h"

#include <bit>
#include <cstring>

#include "worker/collectives/checksum.h"
#include "worker/collectives/reduce.h"

namespace holdfast::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "the ring's bytes are those of a little-endian machine");

constexpr char kMagic[4] = {'H', 'F', 'o', 'p'};

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
  }
  return "unknown operation";
}

const char* name(Element element) {
  return element == Element::kFloat ? " of float32" : element == Element::kInt32 ? " of int32" : "";
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
  return {static_cast<Operation::Kind>(field<uint8_t>(header, 4)),
          static_cast<Element>(field<uint8_t>(header, 5)),
          field<uint16_t>(header, 6),
          field<uint64_t>(header, 8),
          field<uint64_t>(header, 16),
          field<uint64_t>(header, 24)};
}

}  // namespace

Header encode(const Operation& operation) {
  Header header{};
  std::memcpy(header.data(), kMagic, sizeof kMagic);
  put(header, 4, operation.kind);
  put(header, 5, operation.element);
  put(header, 6, operation.root);
  put(header, 8, operation.number);
  put(header, 16, operation.bytes);
  put(header, 24, operation.chunk_bytes);
  return header;
}

std::string describe(const Operation& operation) {
  std::string text = std::string(name(operation.kind)) + " " + std::to_string(operation.number) + " of " +
                     std::to_string(operation.bytes) + " bytes" + name(operation.element);
  if (operation.kind == Operation::Kind::kBroadcast) text += " from rank " + std::to_string(operation.root);
  return text;
}

std::string explain_difference(const Operation& expected, const Header& received) {
  if (std::memcmp(received.data(), kMagic, sizeof kMagic) != 0) return "what came is not the start of an operation";
  const Operation theirs = decode(received);
  std::string text = "it is at " + describe(theirs) + ", while this rank is at " + describe(expected);
  if (theirs.chunk_bytes != expected.chunk_bytes) {
    text += " (its chunks have " + std::to_string(theirs.chunk_bytes) + " bytes, here " + std::to_string(expected.chunk_bytes) +
            ")";
  }
  return text + "; all ranks must call the same collectives in the same order";
}

OutgoingStream::OutgoingStream(Connection& to, const Header& header, std::span<const OutgoingChunk> chunks)
    : to_(to), header_(header), chunks_(chunks) {}

TransportResult<size_t> OutgoingStream::pump(std::span<const uint64_t> incoming_checksums) {
  moved_ = 0;
  blocked_ = false;
  while (!complete()) {
    if (header_pending_) {
      const bool more = !chunks_.empty() && chunks_.front().after == 0;
      const auto done = send_rest(header_, more);
      if (!done) return tl::make_unexpected(done.error());
      if (!*done) break;
      header_pending_ = false;
      sent_ = 0;
      continue;
    }
    if (!chunk_open_ && !open_chunk(incoming_checksums)) break;
    const auto payload = chunks_[next_].bytes;
    if (sent_ < payload.size()) {
      const size_t before = sent_;
      const auto done = send_rest(payload, true);
      payload_bytes_ += sent_ - before;
      if (!done) return tl::make_unexpected(done.error());
      if (!*done) break;
    }
    const auto checksum = std::as_bytes(std::span(&checksum_, 1));
    sent_ -= payload.size();
    const auto done = send_rest(checksum, false);
    sent_ += payload.size();
    if (!done) return tl::make_unexpected(done.error());
    if (!*done) break;
    chunk_open_ = false;
    ++next_;
  }
  return moved_;
}

bool OutgoingStream::open_chunk(std::span<const uint64_t> incoming_checksums) {
  const OutgoingChunk& chunk = chunks_[next_];
  if (incoming_checksums.size() < chunk.after) return false;
  checksum_ = chunk.forwarded ? incoming_checksums[chunk.after - 1] : checksum_of(chunk.bytes);
  chunk_open_ = true;
  sent_ = 0;
  return true;
}

// Sends `whole` from `sent_` on; whether it is all out.
TransportResult<bool> OutgoingStream::send_rest(std::span<const std::byte> whole, bool more) {
  const auto n = to_.send_some(whole.subspan(sent_), more);
  if (!n) return tl::make_unexpected(n.error());
  sent_ += *n;
  moved_ += *n;
  blocked_ = sent_ < whole.size();
  return !blocked_;
}

IncomingStream::IncomingStream(Connection& from, const Operation& operation, std::span<const IncomingChunk> chunks,
                               std::vector<std::byte>& staging)
    : from_(from), operation_(operation), chunks_(chunks), staging_(staging) {
  checksums_.reserve(chunks.size());
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

// Fills `whole`, which comes after `before` other bytes of what is being received; whether it is full.
TransportResult<bool> IncomingStream::receive_rest(std::span<std::byte> whole, size_t before) {
  const auto n = from_.receive_some(whole.subspan(received_ - before));
  if (!n) return tl::make_unexpected(n.error());
  received_ += *n;
  moved_ += *n;
  return received_ - before == whole.size();
}

TransportResult<bool> IncomingStream::receive_header() {
  const auto done = receive_rest(header_, 0);
  if (!done || !*done) return done;
  if (header_ != encode(operation_)) {
    return tl::make_unexpected(TransportError{TransportError::Kind::kFailed, explain_difference(operation_, header_)});
  }
  header_done_ = true;
  received_ = 0;
  return true;
}

TransportResult<bool> IncomingStream::receive_chunk() {
  const IncomingChunk& chunk = chunks_[checksums_.size()];
  const size_t size = chunk.bytes.size();
  if (chunk.add) {
    if (staging_.size() < size + kChecksumBytes) staging_.resize(size + kChecksumBytes);
    const auto done = receive_rest(std::span(staging_).first(size + kChecksumBytes), 0);
    if (!done || !*done) return done;
    std::memcpy(checksum_.data(), staging_.data() + size, kChecksumBytes);
    return finish_chunk(std::span(staging_).first(size));
  }
  if (received_ < size) {
    const auto done = receive_rest(chunk.bytes, 0);
    if (!done || !*done) return done;
  }
  const auto done = receive_rest(checksum_, size);
  if (!done || !*done) return done;
  return finish_chunk(chunk.bytes);
}

TransportResult<bool> IncomingStream::finish_chunk(std::span<const std::byte> payload) {
  uint64_t expected = 0;
  std::memcpy(&expected, checksum_.data(), sizeof expected);
  if (checksum_of(payload) != expected) {
    return tl::make_unexpected(
        TransportError{TransportError::Kind::kFailed, "the checksum of chunk " + std::to_string(checksums_.size()) + " (" +
                                                          std::to_string(payload.size()) +
                                                          " bytes) is wrong: its bytes were altered on the way"});
  }
  const IncomingChunk& chunk = chunks_[checksums_.size()];
  if (chunk.add) add_elements(chunk.bytes, payload, operation_.element);
  checksums_.push_back(expected);
  payload_bytes_ += payload.size();
  received_ = 0;
  return true;
}

}  // namespace holdfast::worker
