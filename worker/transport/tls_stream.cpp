// OpenSSL does TLS; below it lies a socket of ours, because OpenSSL's own can neither hold a short packet back (MSG_MORE) nor
// write to a broken connection without a signal (MSG_NOSIGNAL). It also reads ahead itself: OpenSSL 3.5 that reads ahead loses
// what it has read behind a change of the key.
//
// Waiting is where such code goes wrong, so it has three rules. A record is reported as taken when the kernel has the whole of
// it: nothing waits here that only another call would push out. The buffer of what was received counts as readable until
// OpenSSL has asked the socket for more in vain: half a record in it is not (SSL_has_pending would say so). And a call that
// stopped for the other direction waits for that one (events()).
#include "worker/transport/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "rendezvous/text/errno_text.h"

namespace holdfast::worker {

constexpr int kSetKtls = 72;  // BIO_CTRL_SET_KTLS, which OpenSSL's public headers leave out

struct SocketBelow {
  static int write(BIO* bio, const char* data, int length) {
    BIO_clear_retry_flags(bio);
    BIO* const socket = BIO_next(bio);
    if (BIO_get_ktls_send(socket)) {  // a message of TLS itself, as OpenSSL hands them to the kernel
      const int written = BIO_write(socket, data, length);
      BIO_copy_next_retry(bio);
      return written;
    }
    const auto* const stream = static_cast<const TlsStream*>(BIO_get_data(bio));
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (stream->more_follows_ ? MSG_MORE : 0);
    ssize_t n = 0;
    do n = send(stream->descriptor_, data, static_cast<size_t>(length), flags);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_write(bio);
    return static_cast<int>(n);
  }
  // Ahead once the handshake is done.
  static int read(BIO* bio, char* data, int length) {
    BIO_clear_retry_flags(bio);
    auto* const stream = static_cast<TlsStream*>(BIO_get_data(bio));
    if (!stream->ready_) {
      const int n = BIO_read(BIO_next(bio), data, length);
      BIO_copy_next_retry(bio);
      return n;
    }
    if (stream->read_.empty()) {
      const int n = BIO_read(BIO_next(bio), stream->read_memory_.data(), static_cast<int>(stream->read_memory_.size()));
      BIO_copy_next_retry(bio);
      if (n <= 0) return n;
      stream->read_ = std::span(stream->read_memory_).first(static_cast<size_t>(n));
    }
    const auto taken = stream->read_.first(std::min(stream->read_.size(), static_cast<size_t>(length)));
    std::ranges::copy(taken, data);
    stream->read_ = stream->read_.subspan(taken.size());
    return static_cast<int>(taken.size());
  }
  // The kernel only seals. Before Linux 6.14 a kernel that opens what comes takes no new key, which a neighbour whose OpenSSL
  // seals sends every so often.
  static long control(BIO* bio, int command, long number, void* pointer) {
    const bool to_open = command == kSetKtls && number == 0;
    return BIO_next(bio) == nullptr || to_open ? 0 : BIO_ctrl(BIO_next(bio), command, number, pointer);
  }
  static int create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  }
  static const BIO_METHOD* method() {
    static const BIO_METHOD* const made = [] {
      BIO_METHOD* const method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_FILTER, "holdfast socket");
      if (method == nullptr) throw std::runtime_error("OpenSSL cannot make a kind of BIO");
      BIO_meth_set_write(method, write);
      BIO_meth_set_read(method, read);
      BIO_meth_set_ctrl(method, control);
      BIO_meth_set_create(method, create);
      return method;
    }();
    return made;
  }
};

namespace {

using rendezvous::describe_errno;
using Kind = TransportError::Kind;

constexpr std::string_view kIdentity = "holdfast ring";  // the key is of one connection: its name says nothing
// The most that one read of the socket brings: records are copied once more, so they should lie in the processor's cache.
constexpr size_t kReadBufferBytes = 128 << 10;
constexpr uint64_t kRecordsOfAKernelKey = uint64_t{1} << 32;

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

[[noreturn]] void lacking(const char* what) {
  const char* const reason = ERR_reason_error_string(ERR_peek_error());
  throw std::runtime_error(std::string("OpenSSL refuses ") + what + ": " + (reason == nullptr ? "no reason given" : reason));
}

SSL_CTX* context() {
  static const std::unique_ptr<SSL_CTX, FreeContext> made = [] {
    std::unique_ptr<SSL_CTX, FreeContext> fresh(SSL_CTX_new(TLS_method()));
    if (!fresh || SSL_CTX_set_min_proto_version(fresh.get(), TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(fresh.get(), TLS1_3_VERSION) != 1)
      lacking("TLS 1.3");
    if (SSL_CTX_set1_groups_list(fresh.get(), "X25519") != 1) lacking("X25519");
    SSL_CTX_set_session_cache_mode(fresh.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(fresh.get(), 0);
    SSL_CTX_set_options(fresh.get(), SSL_OP_ENABLE_KTLS);
    SSL_CTX_set_mode(fresh.get(), SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return fresh;
  }();
  return made.get();
}

// A session as OpenSSL has pre-shared keys; its suite stands for a hash, which both suites here have.
SSL_SESSION* session_of(SSL* ssl) {
  constexpr unsigned char kAes128Gcm[] = {0x13, 0x01};
  const auto* const key = static_cast<const StreamKey*>(SSL_get_app_data(ssl));
  SSL_SESSION* const session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  if (SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key->data()), key->size()) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kAes128Gcm)) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* length, SSL_SESSION** session) {
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *length = kIdentity.size();
  *session = session_of(ssl);
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* identity, size_t length, SSL_SESSION** session) {
  const bool known = std::string_view(reinterpret_cast<const char*>(identity), length) == kIdentity;
  *session = known ? session_of(ssl) : nullptr;
  return 1;
}

// The connecting end names what it prefers, and the accepting end takes the first that it allows: without AES both say so.
const char* suites(bool connects) {
  if (processor_has_aes()) return "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
  return connects ? "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256" : "TLS_CHACHA20_POLY1305_SHA256";
}

// A reason of OpenSSL's as a sentence for people.
std::string refusal(unsigned long error) {
  const char* const known = ERR_reason_error_string(error);
  const std::string reason = known == nullptr ? "error " + std::to_string(error) : known;
  if (ERR_GET_REASON(error) >= SSL_AD_REASON_OFFSET) return "it says that TLS failed there (" + reason + ")";
  return "TLS refuses the bytes that came (" + reason + "): they were altered on the way, or are another program's";
}

}  // namespace

void TlsStream::Free::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

TlsStream::TlsStream(int descriptor, std::string peer, const StreamKey& key, bool connects, uint64_t records_of_a_key)
    : descriptor_(descriptor),
      peer_(std::move(peer)),
      key_(key),
      records_of_a_key_(records_of_a_key),
      ssl_(SSL_new(context())) {
  BIO* const socket = BIO_new_socket(descriptor, BIO_NOCLOSE);
  BIO* const below = BIO_new(SocketBelow::method());
  if (!ssl_ || socket == nullptr || below == nullptr || SSL_set_ciphersuites(ssl_.get(), suites(connects)) != 1) {
    BIO_free(socket);
    BIO_free(below);
    lacking("a stream");
  }
  BIO_set_data(below, this);
  BIO_push(below, socket);
  SSL_set_bio(ssl_.get(), below, below);
  SSL_set_app_data(ssl_.get(), &key_);
  if (connects) {
    SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);  // no authority is known: a certificate is no way in
    SSL_set_psk_use_session_callback(ssl_.get(), offer_key);
    SSL_set_connect_state(ssl_.get());
  } else {
    SSL_set_psk_find_session_callback(ssl_.get(), find_key);
    SSL_set_accept_state(ssl_.get());
  }
}

TlsStream::~TlsStream() {
  OPENSSL_cleanse(key_.data(), key_.size());
  more_follows_ = false;
  if (ready_ && !broken_ && !sealed_waits_ && !kernel_sends_) SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

// Why an OpenSSL call did not go through; when it failed, broken_ says so in words. Called right after it, for errno.
TlsStream::Stop TlsStream::stopped(int result, const char* doing) {
  const int error = errno;
  const int kind = SSL_get_error(ssl_.get(), result);
  if (kind == SSL_ERROR_WANT_READ) return Stop::kForRead;
  if (kind == SSL_ERROR_WANT_WRITE) return Stop::kForWrite;
  const unsigned long reason = ERR_peek_error();
  const bool ended = kind == SSL_ERROR_ZERO_RETURN || (kind == SSL_ERROR_SYSCALL && error == 0) ||
                     (kind == SSL_ERROR_SSL && ERR_GET_REASON(reason) == SSL_R_UNEXPECTED_EOF_WHILE_READING);
  if (ended) {
    broken_ = {Kind::kClosed, peer_ + " closed the connection"};
  } else if (kind == SSL_ERROR_SYSCALL) {
    broken_ = {error == ECONNRESET || error == EPIPE ? Kind::kClosed : Kind::kFailed,
               doing + peer_ + ": " + describe_errno(error)};
  } else {
    broken_ = {Kind::kFailed, doing + peer_ + ": " + refusal(reason)};
  }
  drained_ = false;  // the next receive_some has something to say, though the socket may be quiet
  return Stop::kFailed;
}

TransportResult<bool> TlsStream::shake_hands() {
  if (broken_) return tl::make_unexpected(*broken_);
  if (ready_) return true;
  ERR_clear_error();
  errno = 0;
  if (const int result = SSL_do_handshake(ssl_.get()); result != 1) {
    const Stop stop = stopped(result, "TLS handshake with ");
    if (stop == Stop::kFailed) return tl::make_unexpected(*broken_);
    read_waits_to_write_ = stop == Stop::kForWrite;
    return false;
  }
  read_waits_to_write_ = false;
  OPENSSL_cleanse(key_.data(), key_.size());
  if (SSL_session_reused(ssl_.get()) != 1) {
    broken_ = {Kind::kFailed, "TLS handshake with " + peer_ + ": it did not use the key that both have"};
    return tl::make_unexpected(*broken_);
  }
  ready_ = true;
  drained_ = false;
  kernel_sends_ = BIO_get_ktls_send(SSL_get_wbio(ssl_.get()));
  read_memory_.resize(kReadBufferBytes);
  return true;
}

TransportResult<size_t> TlsStream::send_some(std::span<const std::byte> bytes, bool more) {
  if (broken_) return tl::make_unexpected(*broken_);
  if (!ready_ || bytes.empty()) return 0;
  if (kernel_sends_) return send_by_kernel(bytes, more);
  size_t taken = 0;
  while (taken < bytes.size()) {
    const auto record = bytes.subspan(taken, std::min(kRecordBytes, bytes.size() - taken));
    more_follows_ = more || taken + record.size() < bytes.size();
    if (const auto renewed = renew_key_when_due(); !renewed) return tl::make_unexpected(renewed.error());
    ERR_clear_error();
    errno = 0;
    size_t written = 0;
    if (const int result = SSL_write_ex(ssl_.get(), record.data(), record.size(), &written); result != 1) {
      const Stop stop = stopped(result, "send to ");
      if (stop == Stop::kFailed && taken == 0) return tl::make_unexpected(*broken_);
      sealed_waits_ = stop != Stop::kFailed;
      write_waits_to_read_ = stop == Stop::kForRead;
      return taken;
    }
    sealed_waits_ = write_waits_to_read_ = false;
    taken += written;
    ++records_;
  }
  return taken;
}

// The kernel makes the records, and no OpenSSL of today changes its key: one lasts for 64 TiB here.
TransportResult<size_t> TlsStream::send_by_kernel(std::span<const std::byte> bytes, bool more) {
  if (records_ >= kRecordsOfAKernelKey) {
    broken_ = {Kind::kFailed,
               "send to " + peer_ + ": the kernel's key has sealed as much as it may; a new generation brings another"};
    return tl::make_unexpected(*broken_);
  }
  ssize_t n = 0;
  do n = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));
  while (n < 0 && errno == EINTR);
  if (n < 0) {
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) return 0;
    const bool ended = error == ECONNRESET || error == EPIPE;
    broken_ = {ended ? Kind::kClosed : Kind::kFailed, "send to " + peer_ + ": " + describe_errno(error)};
    return tl::make_unexpected(*broken_);
  }
  records_ += static_cast<uint64_t>(n) / kRecordBytes + 1;
  return static_cast<size_t>(n);
}

// The key is for one direction: the peer learns of it with the next record, and answers nothing.
TransportResult<void> TlsStream::renew_key_when_due() {
  if (records_ < records_of_a_key_ || sealed_waits_) return {};
  if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
    broken_ = {Kind::kFailed, "send to " + peer_ + ": TLS cannot change its key: " + refusal(ERR_peek_error())};
    return tl::make_unexpected(*broken_);
  }
  records_ = 0;
  return {};
}

TransportResult<size_t> TlsStream::receive_some(std::span<std::byte> bytes) {
  if (bytes.empty()) return 0;
  size_t taken = 0;
  while (ready_ && !broken_ && taken < bytes.size()) {
    ERR_clear_error();
    errno = 0;
    size_t n = 0;
    if (const int result = SSL_read_ex(ssl_.get(), bytes.data() + taken, bytes.size() - taken, &n); result != 1) {
      const Stop stop = stopped(result, "receive from ");
      if (stop == Stop::kFailed) break;
      read_waits_to_write_ = stop == Stop::kForWrite;
      drained_ = true;
      return taken;
    }
    read_waits_to_write_ = false;
    taken += n;
  }
  if (broken_ && taken == 0) return tl::make_unexpected(*broken_);
  drained_ = false;
  return taken;
}

int16_t TlsStream::events(bool to_send, bool to_receive) const {
  int events = 0;
  if (to_send) events |= write_waits_to_read_ ? POLLIN : POLLOUT;
  if (to_receive) events |= POLLIN | (read_waits_to_write_ ? POLLOUT : 0);
  return static_cast<int16_t>(events);
}

std::string TlsStream::words() const {
  if (!ready_) return "";
  const std::string text = std::string("TLS 1.3 with ") + SSL_get_cipher_name(ssl_.get());
  return kernel_sends_ ? text + ", sealed by the kernel" : text;
}

bool processor_has_aes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
#else
  return true;  // as those that train have
#endif
}

}  // namespace holdfast::worker
