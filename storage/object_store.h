// The object-store seam: named byte strings that are either whole or absent.
//
// Keys are '/'-separated paths of [A-Za-z0-9._-] parts that do not begin with '.' (valid_key): a store has those names to
// itself. Calls block; any thread may call, and other processes may work on the same store at the same time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace holdfast::storage {

struct Error {
  enum class Code {
    kNotFound,     // no such object
    kCorrupt,      // bytes are there and wrong: names the file, what was expected and what was found
    kUnavailable,  // may work later: service away, volume gone or read-only, permissions, an error while writing
    kNoSpace,      // the volume or the quota that the object goes to is full: not before some of it is freed
    kRefused,      // will not work however often it is tried: bad key, stale generation, another model, a newer format
  };
  Code code;
  std::string message;  // names the object and its place, the cause, and what to do
};
template <typename T>
using Result = tl::expected<T, Error>;
using Bytes = std::vector<std::byte>;

// An object is at most this large, here and in the service: whatever is larger was not written by Holdfast.
inline constexpr int64_t kObjectBytesMax = int64_t{256} << 20;

bool valid_key(std::string_view key);
// Refused where the key is not valid; `store` is named in the error.
Result<void> insist_on_key(std::string_view key, const std::string& store);

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // After success the object is durable and whole, even through power loss. After failure or a crash the key holds what
  // it held before or the new bytes, whole: never a part. To be sure which, put again.
  virtual Result<void> put(const std::string& key, std::span<const std::byte> bytes) = 0;
  virtual Result<Bytes> get(const std::string& key) = 0;
  // Keys that begin with a prefix ("" for all), sorted. The prefix is of characters: "step-1" finds "step-12/a".
  virtual Result<std::vector<std::string>> list(const std::string& prefix) = 0;
  // Removing what is not there is a success. Durable when it returns.
  virtual Result<void> remove(const std::string& key) = 0;
  // Removes what puts of crashed writers left unfinished, except below `spared` key prefixes; returns it, for people. A put
  // that is under way elsewhere fails with kUnavailable.
  virtual Result<std::vector<std::string>> remove_unfinished(std::span<const std::string> spared) = 0;
  // For people: "/var/lib/holdfast/checkpoints/j1" or "http://10.0.0.1:7070 (job j1)".
  virtual std::string describe() const = 0;
};

// Passes every call on to another store: the base of stores that add something to some calls.
class ForwardingStore : public ObjectStore {
 public:
  explicit ForwardingStore(std::unique_ptr<ObjectStore> store) : store_(std::move(store)) {}

  Result<void> put(const std::string& key, std::span<const std::byte> bytes) override { return store_->put(key, bytes); }
  Result<Bytes> get(const std::string& key) override { return store_->get(key); }
  Result<std::vector<std::string>> list(const std::string& prefix) override { return store_->list(prefix); }
  Result<void> remove(const std::string& key) override { return store_->remove(key); }
  Result<std::vector<std::string>> remove_unfinished(std::span<const std::string> spared) override {
    return store_->remove_unfinished(spared);
  }
  std::string describe() const override { return store_->describe(); }

 private:
  std::unique_ptr<ObjectStore> store_;
};

// Whether the store says that it has no such object; any other trouble is no.
bool is_absent(ObjectStore& store, const std::string& key);

// The treatment of a store's folder that is not there: readers want to be told (kNotFound) and to leave nothing behind.
enum class MissingFolder : uint8_t { kMake, kFail };

// A folder. Write to a temporary name, fsync, rename, fsync the folder. A folder that is made here is durable, and so are
// its parents, before this returns. With kFail, one that the disk does not give back is kCorrupt, as an object would be.
Result<std::unique_ptr<ObjectStore>> open_directory_store(const std::string& directory,
                                                          MissingFolder missing = MissingFolder::kMake);

}  // namespace holdfast::storage
