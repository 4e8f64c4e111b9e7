// An object store in memory. A test can hold its puts back, refuse them or make them throw.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "storage/object_store.h"

namespace holdfast::storage::testing {

class MemoryStore : public ObjectStore {
 public:
  void hold() {
    const std::scoped_lock lock(mutex_);
    held_ = true;
  }
  void release() {
    const std::scoped_lock lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  // Of puts below `prefix`, if one is given.
  void fail_with(std::optional<Error> error, const std::string& prefix = "") {
    const std::scoped_lock lock(mutex_);
    error_ = std::move(error);
    refused_ = prefix;
  }
  // The next object that is put below `prefix` is removed at once.
  void lose_next_below(const std::string& prefix) {
    const std::scoped_lock lock(mutex_);
    lost_ = prefix;
  }
  void throw_on_put() {
    const std::scoped_lock lock(mutex_);
    throws_ = true;
  }

  Result<void> put(const std::string& key, std::span<const std::byte> bytes) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !held_; });
    if (throws_) throw std::runtime_error("out of something");
    if (error_ && key.starts_with(refused_)) return tl::unexpected(*error_);
    if (lost_ && key.starts_with(*lost_)) {
      lost_.reset();
      return {};
    }
    objects_[key] = Bytes(bytes.begin(), bytes.end());
    return {};
  }
  Result<Bytes> get(const std::string& key) override {
    const std::scoped_lock lock(mutex_);
    const auto found = objects_.find(key);
    if (found == objects_.end()) return tl::unexpected(Error{Error::Code::kNotFound, key + " is not in memory"});
    return found->second;
  }
  Result<std::vector<std::string>> list(const std::string& prefix) override {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> keys;
    for (const auto& [key, bytes] : objects_) {
      if (key.starts_with(prefix)) keys.push_back(key);
    }
    return keys;
  }
  Result<void> remove(const std::string& key) override {
    const std::scoped_lock lock(mutex_);
    objects_.erase(key);
    return {};
  }
  Result<std::vector<std::string>> remove_unfinished(std::span<const std::string>) override {
    return std::vector<std::string>{};
  }
  std::string describe() const override { return "memory"; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, throws_ = false;
  std::optional<Error> error_;
  std::string refused_;
  std::optional<std::string> lost_;
  std::map<std::string, Bytes> objects_;
};

}  // namespace holdfast::storage::testing
