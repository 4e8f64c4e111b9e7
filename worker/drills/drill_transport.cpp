// A transport during drills: silent while the worker is cut off, and with one byte altered when that is asked for.
//
// Promises: while it is cut off no byte goes in or out, no connection is accepted, and neither side sees the end of a
// connection: connections that are closed here meanwhile end only afterwards, as behind a broken switch. The kernel still
// answers for this node, so the others' bytes pile up unread rather than unacknowledged.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "worker/drills/drills.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLook{10};         // the end of a cut is looked for this often
constexpr size_t kAlteredBytesMin = 512;  // so that data is altered, and not a header
constexpr size_t kAlteredBytesMax = 4096;

class DrillTransport;

class DrillConnection final : public Connection {
 public:
  DrillConnection(DrillTransport& transport, std::unique_ptr<Connection> inner)
      : transport_(transport), inner_(std::move(inner)) {}
  ~DrillConnection() override;
  DrillConnection(const DrillConnection&) = delete;
  DrillConnection& operator=(const DrillConnection&) = delete;

  TransportResult<size_t> send_some(std::span<const std::byte> bytes, bool more) override;
  TransportResult<size_t> receive_some(std::span<std::byte> bytes) override;
  TransportResult<bool> encrypt(const StreamKey& key, bool begins) override;
  std::string encryption() const override { return inner_->encryption(); }
  void set_stall_limit(milliseconds limit) override { inner_->set_stall_limit(limit); }
  bool within_node() const override { return false; }  // bytes that may be altered are checked as those of a network
  std::string peer() const override { return inner_->peer(); }
  Connection* inner() const { return inner_.get(); }

 private:
  TransportResult<size_t> send_altered(std::span<const std::byte> bytes);

  DrillTransport& transport_;
  std::unique_ptr<Connection> inner_;
  bool owes_ = false;               // bytes that were offered and not taken: they are to come again as they were
  std::vector<std::byte> altered_;  // the bytes that go in place of what was offered, as far as they are not out
};

Connection* inner_of(Connection* connection) {
  return static_cast<const DrillConnection*>(connection)->inner();
}

class DrillTransport final : public Transport {
 public:
  DrillTransport(std::unique_ptr<Transport> inner, const Drills& drills) : inner_(std::move(inner)), drills_(drills) {}

  const Drills& drills() const { return drills_; }
  bool is_cut() {
    const bool cut = drills_.is_cut();
    if (!cut) closed_in_a_cut_.clear();
    return cut;
  }
  void close_after_the_cut(std::unique_ptr<Connection> connection) { closed_in_a_cut_.push_back(std::move(connection)); }

  std::string address() const override { return inner_->address(); }
  std::string node() const override { return ""; }  // memory in common would go on while the worker is cut off
  std::vector<size_t> refusing(std::span<const std::string> addresses, std::chrono::milliseconds limit) const override {
    return inner_->refusing(addresses, limit);
  }

  TransportResult<std::unique_ptr<Connection>> connect(const std::string& address) override {
    if (is_cut()) {
      return tl::unexpected(TransportError{TransportError::Kind::kFailed, "connect to " + address + ": cut off by a drill"});
    }
    return wrapped(inner_->connect(address));
  }

  TransportResult<std::unique_ptr<Connection>> accept_now() override {
    if (is_cut()) return nullptr;
    return wrapped(inner_->accept_now());
  }

  TransportResult<void> wait(std::span<const Interest> interests, bool accept, Deadline deadline) override {
    while (is_cut()) {
      const auto waited = inner_->wait({}, false, std::min(deadline, steady_clock::now() + kLook));
      const bool looked = !waited && waited.error().kind == TransportError::Kind::kTimeout;
      if (!looked || steady_clock::now() >= deadline) return waited;
    }
    inner_interests_.assign(interests.begin(), interests.end());
    for (Interest& interest : inner_interests_) interest.connection = inner_of(interest.connection);
    return inner_->wait(inner_interests_, accept, deadline);
  }

  std::optional<size_t> wait_for_lost_peer(std::span<Connection* const> connections, std::stop_token stop) override {
    const auto lost = inner_->wait_for_lost_peer(all_inner(connections), stop);
    while (lost && drills_.is_cut()) {
      if (stop.stop_requested()) return std::nullopt;
      std::this_thread::sleep_for(kLook);
    }
    return lost;
  }

  std::optional<size_t> lost_peer(std::span<Connection* const> connections) override {
    return drills_.is_cut() ? std::nullopt : inner_->lost_peer(all_inner(connections));
  }

  void wake() override { inner_->wake(); }

 private:
  static std::vector<Connection*> all_inner(std::span<Connection* const> connections) {
    std::vector<Connection*> inner;
    for (Connection* const connection : connections) inner.push_back(inner_of(connection));
    return inner;
  }

  TransportResult<std::unique_ptr<Connection>> wrapped(TransportResult<std::unique_ptr<Connection>> made) {
    if (!made || !*made) return made;
    return std::make_unique<DrillConnection>(*this, std::move(*made));
  }

  std::unique_ptr<Transport> inner_;
  const Drills& drills_;
  std::vector<std::unique_ptr<Connection>> closed_in_a_cut_;
  std::vector<Interest> inner_interests_;  // kept between waits for its memory
};

DrillConnection::~DrillConnection() {
  if (transport_.is_cut()) transport_.close_after_the_cut(std::move(inner_));
}

TransportResult<size_t> DrillConnection::send_some(std::span<const std::byte> bytes, bool more) {
  if (transport_.is_cut()) return 0;
  const bool is_due = !owes_ && bytes.size() >= kAlteredBytesMin && transport_.drills().is_to_corrupt();
  if (is_due || !altered_.empty()) return send_altered(bytes);
  const auto sent = inner_->send_some(bytes, more);
  owes_ = sent && *sent < bytes.size();
  return sent;
}

// The file stays until the byte is on its way.
TransportResult<size_t> DrillConnection::send_altered(std::span<const std::byte> bytes) {
  if (altered_.empty()) {
    altered_.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), kAlteredBytesMax)));
    altered_[altered_.size() / 2] ^= std::byte{0x10};
  }
  const auto sent = inner_->send_some(altered_, false);
  if (!sent) return sent;
  altered_.erase(altered_.begin(), altered_.begin() + static_cast<std::ptrdiff_t>(*sent));
  if (altered_.empty()) {
    transport_.drills().note_corrupted();
    spdlog::warn("drill: one byte to {} was altered", peer());
  }
  return sent;
}

TransportResult<bool> DrillConnection::encrypt(const StreamKey& key, bool begins) {
  if (transport_.is_cut()) return false;
  return inner_->encrypt(key, begins);
}

TransportResult<size_t> DrillConnection::receive_some(std::span<std::byte> bytes) {
  if (transport_.is_cut()) return 0;
  return inner_->receive_some(bytes);
}

}  // namespace

std::unique_ptr<Transport> make_drill_transport(std::unique_ptr<Transport> inner, const Drills& drills) {
  return std::make_unique<DrillTransport>(std::move(inner), drills);
}

}  // namespace holdfast::worker
