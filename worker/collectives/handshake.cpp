// The handshake's bytes and judgements. Lengths from strangers are bounded before anything is read by them.
#include "worker/collectives/handshake.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace holdfast::worker {
namespace {

constexpr char kMagic[8] = {'H', 'F', 'R', 'I', 'N', 'G', '0', '1'};
constexpr uint32_t kVersion = 2;
constexpr size_t kReasonBytesMax = 512;
constexpr size_t kHelloEncryptionOffset = 36;
constexpr size_t kHelloNonceOffset = 40;
constexpr uint32_t kPlain = 0, kTls13 = 1;

using Proof = std::array<std::byte, kProofBytes>;

// Not inlined: GCC 12 warns of overflows that it imagines when it sees through vectors of known size.
[[gnu::noinline]] void append(Bytes& to, std::span<const std::byte> bytes) {
  const size_t before = to.size();
  to.resize(before + bytes.size());
  std::ranges::copy(bytes, to.begin() + static_cast<std::ptrdiff_t>(before));
}

template <typename T>
void append_value(Bytes& to, const T& value) {
  append(to, std::as_bytes(std::span(&value, 1)));
}

template <typename T>
T field(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

bool has_magic(std::span<const std::byte> bytes) {
  return std::memcmp(bytes.data(), kMagic, sizeof kMagic) == 0;
}

Proof prove(const std::string& secret, const char* role, std::span<const std::byte> hello_fields,
            std::span<const std::byte> nonce) {
  Bytes message;
  append(message, std::as_bytes(std::span(role, std::strlen(role))));
  append(message, hello_fields);
  append(message, nonce);
  Proof proof;
  unsigned int length = proof.size();
  if (!HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
            reinterpret_cast<const unsigned char*>(message.data()), message.size(),
            reinterpret_cast<unsigned char*>(proof.data()), &length)) {
    throw std::runtime_error("OpenSSL cannot compute an HMAC-SHA256");
  }
  return proof;
}

bool proven(const Proof& expected, std::span<const std::byte> given) {
  return CRYPTO_memcmp(expected.data(), given.data(), kProofBytes) == 0;
}

std::span<const std::byte> without_proof(std::span<const std::byte> hello) {
  return hello.first(hello.size() - kProofBytes);
}

Verdict judge_fields(const RingPlace& place, std::span<const std::byte> hello) {
  const auto refused = [](std::string reason) { return Verdict{Verdict::Code::kRefused, std::move(reason)}; };
  const auto not_yet = [](std::string reason) { return Verdict{Verdict::Code::kNotYet, std::move(reason)}; };
  const auto job_bytes = hello.subspan(kHelloFixedBytes, hello.size() - kHelloFixedBytes - kProofBytes);
  const std::string job(reinterpret_cast<const char*>(job_bytes.data()), job_bytes.size());
  if (job != place.job) return not_yet("this worker is in job " + place.job + ", not in job " + job);

  const auto generation = field<int64_t>(hello, 16);
  const std::string here = std::to_string(place.generation), theirs = std::to_string(generation);
  if (generation < place.generation) return refused("generation " + theirs + " is over: this is generation " + here);
  if (generation > place.generation) return not_yet("this worker is at generation " + here + ", not yet at " + theirs);

  const auto world_size = field<int32_t>(hello, 24), rank = field<int32_t>(hello, 28), successor = field<int32_t>(hello, 32);
  if (world_size != place.world_size) {
    return refused("generation " + here + " has " + std::to_string(place.world_size) + " ranks here, " +
                   std::to_string(world_size) + " there");
  }
  if (successor != place.rank) {
    return refused("this is rank " + std::to_string(place.rank) + ", rank " + std::to_string(successor) + " was wanted");
  }
  if (rank != place.predecessor()) {
    return refused("rank " + std::to_string(place.rank) + " follows rank " + std::to_string(place.predecessor()) +
                   ", not rank " + std::to_string(rank));
  }
  if (field<uint32_t>(hello, kHelloEncryptionOffset) != (place.encrypted ? kTls13 : kPlain)) {
    return refused(place.encrypted ? "this worker encrypts the ring with TLS 1.3 (ring_tls on), and that one does not"
                                   : "this worker does not encrypt the ring (ring_tls off), and that one does");
  }
  return {Verdict::Code::kAccepted, ""};
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) != 1) {
    throw std::runtime_error("OpenSSL has no random bytes");
  }
  return nonce;
}

Bytes encode_challenge(const Nonce& nonce) {
  Bytes bytes;
  append_value(bytes, kMagic);
  append(bytes, nonce);
  return bytes;
}

std::optional<Nonce> decode_challenge(std::span<const std::byte> bytes) {
  if (bytes.size() != kChallengeBytes || !has_magic(bytes)) return std::nullopt;
  return field<Nonce>(bytes, sizeof kMagic);
}

Bytes encode_hello(const RingPlace& place, const Nonce& mine, const Nonce& theirs) {
  Bytes hello;
  append_value(hello, kMagic);
  append_value(hello, kVersion);
  append_value(hello, static_cast<uint32_t>(place.job.size()));
  append_value(hello, place.generation);
  append_value(hello, static_cast<int32_t>(place.world_size));
  append_value(hello, static_cast<int32_t>(place.rank));
  append_value(hello, static_cast<int32_t>(place.successor()));
  append_value(hello, place.encrypted ? kTls13 : kPlain);
  append(hello, mine);
  append(hello, std::as_bytes(std::span(place.job)));
  append(hello, prove(place.secret, "connect", hello, theirs));
  return hello;
}

StreamKey stream_key(const RingPlace& place, std::span<const std::byte> hello, const Nonce& challenge) {
  static_assert(sizeof(StreamKey) == sizeof(Proof));
  return prove(place.secret, "encrypt", without_proof(hello), challenge);
}

tl::expected<size_t, Verdict> hello_length(std::span<const std::byte> fixed) {
  const auto refused = [](std::string reason) {
    return tl::make_unexpected(Verdict{Verdict::Code::kRefused, std::move(reason)});
  };
  if (fixed.size() != kHelloFixedBytes || !has_magic(fixed)) return refused("that is not how a Holdfast worker begins");
  if (const auto version = field<uint32_t>(fixed, 8); version != kVersion) {
    return refused("this worker speaks version " + std::to_string(kVersion) + " of the ring's protocol, not " +
                   std::to_string(version) + "; run the same release everywhere");
  }
  const auto job_bytes = field<uint32_t>(fixed, 12);
  if (job_bytes > kJobBytesMax) return refused("a job's id has at most " + std::to_string(kJobBytesMax) + " bytes");
  return kHelloFixedBytes + job_bytes + kProofBytes;
}

Verdict judge_hello(const RingPlace& place, std::span<const std::byte> hello, const Nonce& challenge) {
  Verdict verdict = judge_fields(place, hello);
  if (verdict.code != Verdict::Code::kAccepted) return verdict;
  if (!proven(prove(place.secret, "connect", without_proof(hello), challenge), hello.last(kProofBytes))) {
    return {Verdict::Code::kRefused,
            "the secret of generation " + std::to_string(place.generation) + " is not that of this worker"};
  }
  return verdict;
}

Bytes encode_verdict(const RingPlace& place, const Verdict& verdict, std::span<const std::byte> hello) {
  const std::string reason = verdict.reason.substr(0, kReasonBytesMax);
  Proof proof{};
  if (verdict.code == Verdict::Code::kAccepted) {
    proof = prove(place.secret, "accept", without_proof(hello), hello.subspan(kHelloNonceOffset, sizeof(Nonce)));
  }
  Bytes bytes;
  append_value(bytes, verdict.code);
  append_value(bytes, uint8_t{0});
  append_value(bytes, static_cast<uint16_t>(reason.size()));
  append(bytes, proof);
  append(bytes, std::as_bytes(std::span(reason)));
  return bytes;
}

size_t verdict_length(std::span<const std::byte> fixed) {
  return kVerdictFixedBytes + field<uint16_t>(fixed, 2);
}

Verdict judge_verdict(const RingPlace& place, std::span<const std::byte> verdict, std::span<const std::byte> hello) {
  const auto code = field<Verdict::Code>(verdict, 0);
  const auto text = verdict.subspan(kVerdictFixedBytes);
  const std::string reason(reinterpret_cast<const char*>(text.data()), text.size());
  if (code == Verdict::Code::kNotYet) return {code, reason};
  if (code != Verdict::Code::kAccepted) return {Verdict::Code::kRefused, reason};
  const Proof expected = prove(place.secret, "accept", without_proof(hello), hello.subspan(kHelloNonceOffset, sizeof(Nonce)));
  if (!proven(expected, verdict.subspan(4, kProofBytes))) {
    return {Verdict::Code::kRefused, "it does not know the secret of generation " + std::to_string(place.generation)};
  }
  return {code, ""};
}

}  // namespace holdfast::worker
