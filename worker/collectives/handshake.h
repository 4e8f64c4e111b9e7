// The mutual handshake of a ring connection: its messages, and who refuses whom for which reason. No sockets here.
//
//   acceptor  -> connector   challenge   magic "HFRING01", nonce (32)
//   connector -> acceptor    hello       magic, version (4), job length (4), generation (8), world size (4), rank (4),
//                                        successor's rank (4), encryption (4: 0 none, 1 TLS 1.3), nonce (32), job,
//                                        proof (32)
//   acceptor  -> connector   verdict     code (1), reserved (1), reason length (2), proof (32), reason
// The connector's proof is HMAC-SHA256(secret, "connect" | hello without proof | acceptor's nonce), the acceptor's is
// HMAC-SHA256(secret, "accept" | hello without proof | connector's nonce): each has shown that it knows the generation's
// secret, for this connection and in this direction. The bytes after it are plain, or TLS under the stream key, which is
// HMAC-SHA256(secret, "encrypt" | hello without proof | acceptor's nonce): of this connection alone, and bound to all that was
// said before it. The handshake itself is plain: who listens learns the job's id and the ranks, and no secret.
// Refuses, with a sentence: another version, job, generation, world size or rank, an end that encrypts where the other does
// not (nothing is agreed on, so nobody on the way can talk them out of it), and a wrong proof. Staleness is judged before the
// proof, as every generation has a secret of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "worker/transport/transport.h"

namespace holdfast::worker {

using Bytes = std::vector<std::byte>;
using Nonce = std::array<std::byte, 32>;

Nonce random_nonce();

// The facts on which both ends must agree.
struct RingPlace {
  std::string job;  // at most kJobBytesMax
  int64_t generation = 0;
  int rank = 0;
  int world_size = 1;
  std::string secret;
  bool encrypted = false;  // whatever follows the handshake

  int successor() const { return (rank + 1) % world_size; }
  int predecessor() const { return (rank + world_size - 1) % world_size; }
};
constexpr size_t kJobBytesMax = 256;

constexpr size_t kChallengeBytes = 40;
constexpr size_t kHelloFixedBytes = 72;
constexpr size_t kProofBytes = 32;
constexpr size_t kVerdictFixedBytes = 36;

Bytes encode_challenge(const Nonce& nonce);
std::optional<Nonce> decode_challenge(std::span<const std::byte> bytes);  // nothing: that is no Holdfast worker

Bytes encode_hello(const RingPlace& place, const Nonce& mine, const Nonce& theirs);

// Under which what follows this handshake is encrypted; the same at both ends.
StreamKey stream_key(const RingPlace& place, std::span<const std::byte> hello, const Nonce& challenge);

struct Verdict {
  // kNotYet: the acceptor is behind, or busy with something else; trying again may help.
  enum class Code : uint8_t { kAccepted = 1, kRefused = 2, kNotYet = 3 };
  Code code;
  std::string reason;  // of a refusal
};

// The length of the whole hello, from its fixed part; or why this version cannot read it.
tl::expected<size_t, Verdict> hello_length(std::span<const std::byte> fixed);

// The acceptor's judgement of a whole hello; `challenge` is the nonce that it sent.
Verdict judge_hello(const RingPlace& place, std::span<const std::byte> hello, const Nonce& challenge);

// The verdict on `hello` as bytes, with the acceptor's proof when it is kAccepted.
Bytes encode_verdict(const RingPlace& place, const Verdict& verdict, std::span<const std::byte> hello);
size_t verdict_length(std::span<const std::byte> fixed);
// The connector's reading of the verdict: an acceptance without the right proof is a refusal.
Verdict judge_verdict(const RingPlace& place, std::span<const std::byte> verdict, std::span<const std::byte> hello);

}  // namespace holdfast::worker
