// TLS 1.3 over a connected, non-blocking socket, by OpenSSL, between two ends that have a key in common: there are no
// certificates, and no agreement on versions or on whether to encrypt.
//
// Promises: the pre-shared key proves each end to the other, and an ephemeral X25519 exchange makes the keys of the bytes, so
// that who learns the pre-shared key later reads nothing (psk_dhe_ke). Records are sealed with AES-128-GCM, or with
// ChaCha20-Poly1305 where a processor of the two has no instructions for AES. Bytes that were altered, left out or repeated on
// the way are an error and never data. After kRecordsOfAKey records the sender changes its key, as RFC 8446 (5.5) asks of
// AES-GCM. Where the kernel can (kTLS) OpenSSL hands it the key of what is sent, and the kernel seals that. Refuses: another
// version, a certificate, a session of before, early data. Thread: one at a time. The socket is its owner's, and outlives the
// stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/transport/transport.h"

struct ssl_st;

namespace holdfast::worker {

// 2^23 records of 16 KiB are 128 GiB; RFC 8446 allows 2^24.5.
inline constexpr uint64_t kRecordsOfAKey = uint64_t{1} << 23;
inline constexpr size_t kRecordBytes = 16 << 10;  // the longest that TLS has

class TlsStream {
 public:
  // `peer`: for messages. One end of the two `connects`. Throws std::runtime_error where OpenSSL lacks TLS 1.3 or memory.
  TlsStream(int descriptor, std::string peer, const StreamKey& key, bool connects, uint64_t records_of_a_key = kRecordsOfAKey);
  // Tells the peer that nothing follows, if that can be told without waiting.
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Goes on with the handshake; true once it is through. Before that nothing is sent or received.
  TransportResult<bool> shake_hands();
  // As Connection's. Bytes are taken a record at a time, when the kernel has all of the record.
  TransportResult<size_t> send_some(std::span<const std::byte> bytes, bool more);
  TransportResult<size_t> receive_some(std::span<std::byte> bytes);

  // Whether receive_some may have something although the socket has nothing to read: it stopped because its caller had no more
  // room. Once it returned less than there was room for, only the socket brings more.
  bool may_hold_received() const { return ready_ && !drained_; }
  // The events of poll() after which it may go on: to receive can take a write, and to send a read.
  int16_t events(bool to_send, bool to_receive) const;

  // "TLS 1.3 with TLS_AES_128_GCM_SHA256", and which half the kernel does; "" before the handshake is through.
  std::string words() const;

 private:
  enum class Stop { kForRead, kForWrite, kFailed };
  Stop stopped(int result, const char* doing);
  TransportResult<size_t> send_by_kernel(std::span<const std::byte> bytes, bool more);
  TransportResult<void> renew_key_when_due();

  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  const int descriptor_;
  const std::string peer_;
  StreamKey key_;  // until the handshake is through
  const uint64_t records_of_a_key_;
  bool more_follows_ = false;  // for the socket's own writes, below `ssl_`
  std::unique_ptr<ssl_st, Free> ssl_;
  bool ready_ = false;
  bool drained_ = true;  // the last receive_some stopped because the socket had nothing
  bool read_waits_to_write_ = false, write_waits_to_read_ = false;
  bool sealed_waits_ = false;  // a sealed record is not wholly in the kernel
  bool kernel_sends_ = false;
  uint64_t records_ = 0;  // under the present key
  std::vector<char> read_memory_;
  std::span<const char> read_;  // of it, what came from the socket and OpenSSL has not asked for yet
  std::optional<TransportError> broken_;

  friend struct SocketBelow;
};

// Whether this processor has instructions for AES-GCM.
bool processor_has_aes();

}  // namespace holdfast::worker
