#include "tests/worker/collectives/faulty_proxy.h"

#include <atomic>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {

// All that passed, for somebody who listens.
class ProxyTap {
 public:
  void keep(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    heard_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  mutable std::mutex mutex_;
  std::string heard_;
};

namespace {

// One direction of a proxied connection.
struct Half {
  Connection *from, *to;
  std::vector<std::byte> pending;

  bool pump(ProxyTap* tap) {
    if (pending.empty()) {
      pending.resize(64 << 10);
      const auto n = from->receive_some(pending);
      if (!n) return false;
      pending.resize(*n);
      if (tap != nullptr) tap->keep(pending);
    }
    if (pending.empty()) return true;
    const auto n = to->send_some(pending, false);
    if (!n) return false;
    pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(*n));
    return true;
  }
};

struct Pair {
  std::unique_ptr<Connection> client, server;
  std::vector<std::byte> pending;  // from the client, not yet handed on
  uint64_t passed = 0;             // from the client
  Half back;
  bool frozen = false;

  // Whether the pair lives on.
  bool pump(const Fault& fault, std::atomic<uint64_t>& total, ProxyTap* tap) {
    if (frozen) return true;
    if (!back.pump(tap)) return false;
    if (pending.empty() && !take(fault, total, tap)) return false;
    if (pending.empty()) return true;
    const auto n = server->send_some(pending, false);
    if (!n) return false;
    pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(*n));
    return !pending.empty() || passed < fault.cut_after;
  }

  bool take(const Fault& fault, std::atomic<uint64_t>& total, ProxyTap* tap) {
    if (fault.bytes_per_tick != Fault::kNever) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const uint64_t limit = std::min(std::min(fault.cut_after, fault.freeze_after) - passed, fault.bytes_per_tick);
    if (limit == 0) {
      frozen = passed == fault.freeze_after;
      return frozen;
    }
    pending.resize(static_cast<size_t>(std::min<uint64_t>(limit, 64 << 10)));
    const auto n = client->receive_some(pending);
    if (!n) return false;
    pending.resize(*n);
    if (fault.flip_bit_at >= passed && fault.flip_bit_at < passed + *n) pending[fault.flip_bit_at - passed] ^= std::byte{4};
    passed += *n;
    total += *n;
    if (tap != nullptr) tap->keep(pending);
    return true;
  }
};

}  // namespace

struct FaultyProxy::Impl {
  std::unique_ptr<Transport> transport = loopback_transport();
  std::string target, address = transport->address();
  Fault fault;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> total{0};
  ProxyTap tap;
  std::thread thread;

  void run() {
    std::list<Pair> pairs;
    while (!stop) {
      while (auto client = transport->accept_now().value()) {
        auto server = transport->connect(target).value();
        pairs.push_back({std::move(client), std::move(server), {}, 0, {}, false});
        pairs.back().back = {pairs.back().server.get(), pairs.back().client.get(), {}};
      }
      pairs.remove_if([&](Pair& pair) { return !pair.pump(fault, total, fault.overhears ? &tap : nullptr); });
      std::vector<Transport::Interest> interests;
      for (Pair& pair : pairs) {
        if (pair.frozen) continue;
        interests.push_back({pair.client.get(), !pair.back.pending.empty(), pair.pending.empty()});
        interests.push_back({pair.server.get(), !pair.pending.empty(), pair.back.pending.empty()});
      }
      // Ends at events, at wake(), or soon.
      (void)transport->wait(interests, true, std::chrono::steady_clock::now() + std::chrono::seconds(1));
    }
  }
};

FaultyProxy::FaultyProxy(const std::string& target, Fault fault) : impl_(std::make_unique<Impl>()) {
  impl_->target = target;
  impl_->fault = fault;
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

FaultyProxy::~FaultyProxy() {
  impl_->stop = true;
  impl_->transport->wake();
  impl_->thread.join();
}

const std::string& FaultyProxy::address() const {
  return impl_->address;
}
uint64_t FaultyProxy::bytes_from_client() const {
  return impl_->total;
}
std::string FaultyProxy::overheard() const {
  return impl_->tap.heard();
}

}  // namespace holdfast::worker
