// One thread, one poll: the connection to the successor beside up to 256 inbound ones, until both neighbours have proven
// themselves or the deadline passes.
#include "worker/collectives/forming.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// At most so many inbound connections are judged at once: beyond that the oldest silent one is dropped for the newest.
constexpr size_t kInboundMax = 256;
// The pause before the successor is tried again, while it is not there or not ready; it doubles up to the maximum.
constexpr milliseconds kRetryMin{10}, kRetryMax{200};
// A worker listens from before the service knows it until it ends. So if nobody listens at its address it is dead, and need
// not be waited for; except the first time, when its node may just have come back to the network.
constexpr int kNobodyThereMax = 3;

// Short messages on a non-blocking stream: queued bytes go out first, then bytes are gathered up to a length.
class Messages {
 public:
  explicit Messages(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

  void queue(Bytes bytes) {
    outgoing_ = std::move(bytes);
    sent_ = 0;
  }
  TransportResult<bool> flush() {
    while (sent_ < outgoing_.size()) {
      const auto n = connection_->send_some(std::span(outgoing_).subspan(sent_), false);
      if (!n) return tl::make_unexpected(n.error());
      if (*n == 0) return false;
      sent_ += *n;
    }
    return true;
  }
  // Never takes more than `length`: the bytes after it belong to another reader.
  TransportResult<bool> gather(size_t length) {
    while (gathered_.size() < length) {
      const size_t before = gathered_.size();
      gathered_.resize(length);
      const auto n = connection_->receive_some(std::span(gathered_).subspan(before));
      gathered_.resize(before + (n ? *n : 0));
      if (!n) return tl::make_unexpected(n.error());
      if (*n == 0) return false;
    }
    return true;
  }

  // Once all is out and gathered. False: wait for more.
  TransportResult<bool> encrypt(const StreamKey& key, bool begins) { return connection_->encrypt(key, begins); }

  std::span<const std::byte> gathered() const { return gathered_; }
  void forget_gathered() { gathered_.clear(); }
  Transport::Interest interest() const { return {connection_.get(), sent_ < outgoing_.size(), true}; }
  std::string peer() const { return connection_->peer(); }
  std::unique_ptr<Connection> release() { return std::move(connection_); }

 private:
  std::unique_ptr<Connection> connection_;
  Bytes outgoing_, gathered_;
  size_t sent_ = 0;
};

// An inbound connection: challenge, hello, verdict; then TLS, where the ring is encrypted.
class Inbound {
 public:
  enum class State { kPending, kAccepted, kDropped };

  Inbound(std::unique_ptr<Connection> connection, const RingPlace& place)
      : messages_(std::move(connection)), place_(&place), challenge_(random_nonce()) {
    messages_.queue(encode_challenge(challenge_));
  }

  State pump() {
    const auto advanced = advance();
    if (advanced) return *advanced;
    if (reason_.empty()) reason_ = advanced.error().detail;
    return State::kDropped;
  }

  Transport::Interest interest() const { return messages_.interest(); }
  std::unique_ptr<Connection> release() { return messages_.release(); }
  std::string reason() const { return messages_.peer() + ": " + reason_; }

 private:
  TransportResult<State> advance() {
    const auto sent = messages_.flush();
    if (!sent) return tl::make_unexpected(sent.error());
    if (!*sent) return State::kPending;
    if (!verdict_) {
      const auto heard = hear();
      if (!heard || !*heard) return heard.map([](bool) { return State::kPending; });
      messages_.queue(encode_verdict(*place_, *verdict_, messages_.gathered()));
      return advance();
    }
    reason_ = verdict_->reason;
    if (verdict_->code != Verdict::Code::kAccepted) return State::kDropped;
    if (!place_->encrypted) return State::kAccepted;
    return messages_.encrypt(stream_key(*place_, messages_.gathered(), challenge_), false).map([](bool through) {
      return through ? State::kAccepted : State::kPending;
    });
  }

  // Whether there is a verdict now.
  TransportResult<bool> hear() {
    auto done = messages_.gather(kHelloFixedBytes);
    if (!done || !*done) return done;
    const auto length = hello_length(messages_.gathered().first(kHelloFixedBytes));
    if (!length) {
      verdict_ = length.error();
      return true;
    }
    done = messages_.gather(*length);
    if (done && *done) verdict_ = judge_hello(*place_, messages_.gathered(), challenge_);
    return done;
  }

  Messages messages_;
  const RingPlace* place_;
  Nonce challenge_;
  std::optional<Verdict> verdict_;
  std::string reason_;
};

// The outgoing connection to the successor, over as many attempts as it takes.
class Outbound {
 public:
  Outbound(Transport& transport, const RingPlace& place, std::string address)
      : transport_(transport), place_(place), address_(std::move(address)) {}

  bool done() const { return connection_ != nullptr; }
  bool failed() const { return refused_ || gone_; }  // for good
  bool gone() const { return gone_; }                // nobody listens there
  const std::string& trouble() const { return trouble_; }
  std::unique_ptr<Connection> release() { return std::move(connection_); }

  void pump(steady_clock::time_point now) {
    if (done() || failed() || (!messages_ && now < retry_at_)) return;
    if (!messages_ && !begin(now)) return;
    const auto verdict = advance();
    if (!verdict) return fall_back(verdict.error(), now);
    if (!*verdict) return;
    const auto& [code, reason] = **verdict;
    if (code == Verdict::Code::kAccepted) {
      connection_ = messages_->release();
    } else if (code == Verdict::Code::kNotYet) {
      retry("not ready: " + reason, now);
    } else {
      refused_ = true;
      trouble_ = "refused: " + reason;
    }
  }

  std::optional<Transport::Interest> interest() const {
    if (done() || !messages_) return std::nullopt;
    return messages_->interest();
  }
  Deadline next_attempt() const { return messages_ || done() ? Deadline::max() : retry_at_; }

 private:
  bool begin(steady_clock::time_point now) {
    auto connection = transport_.connect(address_);
    if (!connection) {
      fall_back(connection.error(), now);
      return false;
    }
    messages_.emplace(std::move(*connection));
    hello_.clear();
    verdict_.reset();
    return true;
  }

  void fall_back(const TransportError& error, steady_clock::time_point now) {
    retry(error.detail, now);
    nobody_there_ = error.kind == TransportError::Kind::kRefused ? nobody_there_ + 1 : 0;
    gone_ = nobody_there_ == kNobodyThereMax;
  }

  void retry(const std::string& why, steady_clock::time_point now) {
    trouble_ = why;
    messages_.reset();
    retry_at_ = now + pause_;
    pause_ = std::min(2 * pause_, kRetryMax);
  }

  // Returns nothing while the attempt is under way.
  TransportResult<std::optional<Verdict>> advance() {
    if (!verdict_) {
      const auto heard = hear();
      if (!heard) return tl::make_unexpected(heard.error());
      if (!*heard) return std::nullopt;
    }
    if (verdict_->code != Verdict::Code::kAccepted || !place_.encrypted) return verdict_;
    return messages_->encrypt(stream_key(place_, hello_, challenge_), true).map([this](bool through) {
      return through ? verdict_ : std::nullopt;
    });
  }

  // Whether there is a verdict now.
  TransportResult<bool> hear() {
    if (hello_.empty()) {
      auto done = messages_->gather(kChallengeBytes);
      if (!done || !*done) return done;
      const auto challenge = decode_challenge(messages_->gathered());
      if (!challenge) {
        verdict_ = {Verdict::Code::kNotYet, address_ + " does not answer like a Holdfast worker"};
        return true;
      }
      nobody_there_ = 0;
      challenge_ = *challenge;
      hello_ = encode_hello(place_, random_nonce(), challenge_);
      messages_->forget_gathered();
      messages_->queue(hello_);
    }
    auto done = messages_->flush();
    if (done && *done) done = messages_->gather(kVerdictFixedBytes);
    if (done && *done) done = messages_->gather(verdict_length(messages_->gathered().first(kVerdictFixedBytes)));
    if (done && *done) verdict_ = judge_verdict(place_, messages_->gathered(), hello_);
    return done;
  }

  Transport& transport_;
  const RingPlace& place_;
  std::string address_;
  std::optional<Messages> messages_;
  Bytes hello_;
  Nonce challenge_{};
  std::optional<Verdict> verdict_;
  std::unique_ptr<Connection> connection_;
  bool refused_ = false, gone_ = false;
  int nobody_there_ = 0;  // so often in a row
  std::string trouble_ = "it has not answered yet";
  Deadline retry_at_{};
  milliseconds pause_ = kRetryMin;
};

class Forming {
 public:
  Forming(Transport& transport, const RingPlace& place, const std::string& successor_address)
      : transport_(transport), place_(place), address_(successor_address), outbound_(transport, place, successor_address) {}

  CollectiveResult<RingConnections> run(Deadline deadline, const std::stop_token& stop) {
    for (;;) {
      if (stop.stop_requested()) return fail(CollectiveError::Kind::kAborted, -1, "forming the ring was stopped");
      outbound_.pump(steady_clock::now());
      if (outbound_.failed()) return fail_outbound();
      if (const auto taken = take_inbound(); !taken) {
        return fail(CollectiveError::Kind::kHandshakeFailed, -1, taken.error().detail);
      }
      pump_inbound();
      if (outbound_.done() && predecessor_) return RingConnections{outbound_.release(), std::move(predecessor_)};

      // Strangers that come again and again do not keep this from its end.
      if (steady_clock::now() >= deadline) return outbound_.done() ? fail_inbound() : fail_outbound();
      const auto waited = transport_.wait(interests(), true, std::min(deadline, outbound_.next_attempt()));
      if (waited || waited.error().kind == TransportError::Kind::kWoken) continue;
      if (waited.error().kind != TransportError::Kind::kTimeout) {
        return fail(CollectiveError::Kind::kHandshakeFailed, -1, waited.error().detail);
      }
    }
  }

 private:
  TransportResult<void> take_inbound() {
    for (;;) {
      auto accepted = transport_.accept_now();
      if (!accepted) return tl::make_unexpected(accepted.error());
      if (!*accepted) return {};
      if (inbound_.size() == kInboundMax) inbound_.pop_front();
      inbound_.emplace_back(std::move(*accepted), place_);
    }
  }

  void pump_inbound() {
    std::erase_if(inbound_, [&](Inbound& inbound) {
      const auto state = inbound.pump();
      // A predecessor that connects a second time has lost its first connection.
      if (state == Inbound::State::kAccepted) predecessor_ = inbound.release();
      if (state == Inbound::State::kDropped) {
        ++dropped_;
        last_dropped_ = inbound.reason();
      }
      return state != Inbound::State::kPending;
    });
  }

  const std::vector<Transport::Interest>& interests() {
    interests_.clear();
    if (const auto interest = outbound_.interest()) interests_.push_back(*interest);
    for (const Inbound& inbound : inbound_) interests_.push_back(inbound.interest());
    return interests_;
  }

  tl::unexpected<CollectiveError> fail(CollectiveError::Kind kind, int suspect, const std::string& detail) const {
    return tl::make_unexpected(
        CollectiveError{kind, suspect, "forming generation " + std::to_string(place_.generation) + ": " + detail, false});
  }

  tl::unexpected<CollectiveError> fail_outbound() const {
    auto error =
        fail(CollectiveError::Kind::kHandshakeFailed, place_.successor(),
             "no connection to rank " + std::to_string(place_.successor()) + " (" + address_ + "): " + outbound_.trouble());
    error.value().ended = outbound_.gone();
    return error;
  }

  tl::unexpected<CollectiveError> fail_inbound() const {
    std::string detail = "rank " + std::to_string(place_.predecessor()) + " has not connected to " + transport_.address();
    if (dropped_ > 0) detail += "; " + std::to_string(dropped_) + " others were turned away, the last was " + last_dropped_;
    return fail(CollectiveError::Kind::kHandshakeFailed, place_.predecessor(), detail);
  }

  Transport& transport_;
  const RingPlace& place_;
  const std::string& address_;
  Outbound outbound_;
  std::unique_ptr<Connection> predecessor_;
  std::deque<Inbound> inbound_;
  size_t dropped_ = 0;
  std::string last_dropped_;
  std::vector<Transport::Interest> interests_;
};

}  // namespace

CollectiveResult<RingConnections> form_ring(Transport& transport, const RingPlace& place, const std::string& successor_address,
                                            Deadline deadline, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [&] { transport.wake(); });
  return Forming(transport, place, successor_address).run(deadline, stop);
}

}  // namespace holdfast::worker
