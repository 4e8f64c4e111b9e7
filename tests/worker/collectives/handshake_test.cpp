// The handshake as bytes: who is accepted, who is refused and with which sentence, and what a stranger can send.
#include "worker/collectives/handshake.h"

#include <gtest/gtest.h>

namespace holdfast::worker {
namespace {

constexpr size_t kGenerationOffset = 16;

class Handshake : public testing::Test {
 protected:
  // The acceptor's answer to the connector's hello.
  Verdict verdict() const {
    const Bytes hello = encode_hello(connector, nonce, challenge);
    return judge_hello(acceptor, hello, challenge);
  }
  // The connector's reading of the acceptor's answer.
  Verdict answer() const {
    const Bytes hello = encode_hello(connector, nonce, challenge);
    const Verdict judged = judge_hello(acceptor, hello, challenge);
    return judge_verdict(connector, encode_verdict(acceptor, judged, hello), hello);
  }

  RingPlace connector{"job", 7, 1, 3, "5ec2e7"};
  RingPlace acceptor{"job", 7, 2, 3, "5ec2e7"};
  Nonce nonce = random_nonce(), challenge = random_nonce();
};

TEST_F(Handshake, IsAcceptedByBothSidesOfOneRing) {
  EXPECT_EQ(verdict().code, Verdict::Code::kAccepted);
  EXPECT_EQ(answer().code, Verdict::Code::kAccepted);
}

TEST_F(Handshake, TellsAnOldGenerationThatItIsOver) {
  connector.generation = 6;
  connector.secret = "older";
  EXPECT_EQ(verdict().code, Verdict::Code::kRefused);
  EXPECT_EQ(answer().reason, "generation 6 is over: this is generation 7");
}

TEST_F(Handshake, AsksANewerGenerationToWait) {
  connector.generation = 8;
  EXPECT_EQ(verdict().code, Verdict::Code::kNotYet);
  EXPECT_EQ(answer().reason, "this worker is at generation 7, not yet at 8");
}

TEST_F(Handshake, AsksAnotherJobToWait) {
  connector.job = "another";
  EXPECT_EQ(verdict().code, Verdict::Code::kNotYet);
  EXPECT_EQ(answer().reason, "this worker is in job job, not in job another");
}

TEST_F(Handshake, RefusesARankThatIsNotThePredecessor) {
  acceptor.rank = 0;
  EXPECT_EQ(verdict().code, Verdict::Code::kRefused);
  EXPECT_EQ(answer().reason, "this is rank 0, rank 2 was wanted");
}

TEST_F(Handshake, RefusesAnotherWorldSize) {
  acceptor.world_size = 4;
  EXPECT_EQ(answer().reason, "generation 7 has 4 ranks here, 3 there");
}

TEST_F(Handshake, RefusesAWrongSecret) {
  connector.secret = "guess";
  EXPECT_EQ(verdict().code, Verdict::Code::kRefused);
  EXPECT_EQ(answer().reason, "the secret of generation 7 is not that of this worker");
}

TEST_F(Handshake, RefusesAnEndThatEncryptsWhereTheOtherDoesNot) {
  acceptor.encrypted = true;
  EXPECT_EQ(verdict().code, Verdict::Code::kRefused);
  EXPECT_EQ(answer().reason, "this worker encrypts the ring with TLS 1.3 (ring_tls on), and that one does not");
  std::swap(connector.encrypted, acceptor.encrypted);
  EXPECT_EQ(answer().reason, "this worker does not encrypt the ring (ring_tls off), and that one does");
  acceptor.encrypted = true;
  EXPECT_EQ(verdict().code, Verdict::Code::kAccepted);
}

TEST_F(Handshake, GivesEachConnectionAStreamKeyThatBothEndsKnow) {
  const Bytes hello = encode_hello(connector, nonce, challenge);
  const StreamKey key = stream_key(connector, hello, challenge);
  EXPECT_EQ(stream_key(acceptor, hello, challenge), key);
  EXPECT_NE(stream_key(connector, hello, random_nonce()), key);
  EXPECT_NE(stream_key(connector, encode_hello(connector, random_nonce(), challenge), challenge), key);
  acceptor.secret = "guess";
  EXPECT_NE(stream_key(acceptor, hello, challenge), key);
}

TEST_F(Handshake, RefusesAReplayUnderAnotherChallenge) {
  const Bytes hello = encode_hello(connector, nonce, challenge);
  EXPECT_EQ(judge_hello(acceptor, hello, random_nonce()).code, Verdict::Code::kRefused);
}

TEST_F(Handshake, RefusesAnAlteredHelloWhereverItIsAltered) {
  const Bytes hello = encode_hello(connector, nonce, challenge);
  for (size_t i = kGenerationOffset; i < hello.size(); ++i) {
    Bytes altered = hello;
    altered[i] ^= std::byte{1};
    EXPECT_NE(judge_hello(acceptor, altered, challenge).code, Verdict::Code::kAccepted) << "byte " << i;
  }
}

TEST_F(Handshake, DoesNotBelieveAnAcceptorWithoutTheSecret) {
  const Bytes hello = encode_hello(connector, nonce, challenge);
  acceptor.secret = "guess";
  const Bytes forged = encode_verdict(acceptor, {Verdict::Code::kAccepted, ""}, hello);
  const Verdict judged = judge_verdict(connector, forged, hello);
  EXPECT_EQ(judged.code, Verdict::Code::kRefused);
  EXPECT_EQ(judged.reason, "it does not know the secret of generation 7");
}

TEST_F(Handshake, DoesNotTakeItsOwnProofForTheAcceptors) {
  const Bytes hello = encode_hello(connector, challenge, challenge);
  Bytes reflected = encode_verdict(acceptor, {Verdict::Code::kAccepted, ""}, hello);
  std::copy(hello.end() - kProofBytes, hello.end(), reflected.begin() + 4);
  EXPECT_EQ(judge_verdict(connector, reflected, hello).code, Verdict::Code::kRefused);
}

TEST_F(Handshake, BoundsWhatAStrangerCanMakeItRead) {
  Bytes hello = encode_hello(connector, nonce, challenge);
  EXPECT_EQ(*hello_length(std::span(hello).first(kHelloFixedBytes)), hello.size());
  hello[14] = std::byte{1};  // a job's id of 64 KiB
  EXPECT_EQ(hello_length(std::span(hello).first(kHelloFixedBytes)).error().reason, "a job's id has at most 256 bytes");
  hello[8] = std::byte{9};
  EXPECT_EQ(hello_length(std::span(hello).first(kHelloFixedBytes)).error().reason,
            "this worker speaks version 2 of the ring's protocol, not 9; run the same release everywhere");
  hello[0] = std::byte{'G'};
  EXPECT_EQ(hello_length(std::span(hello).first(kHelloFixedBytes)).error().reason, "that is not how a Holdfast worker begins");
}

}  // namespace
}  // namespace holdfast::worker
