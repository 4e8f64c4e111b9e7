// The object-store seam: named byte strings that are either whole or absent.
//
// Keys are '/'-separated paths of [A-Za-z0-9._-] parts, never "." or ".." (valid_key). Calls block; any thread may call.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::storage {

struct Error {
  enum class Code {
    kNotFound,     // no such object
    kCorrupt,      // bytes are there and wrong: names the file, what was expected and what was found
    kUnavailable,  // may work later: service away, disk full, I/O error
    kRefused,      // will not work: bad key, no permission, stale generation
  };
  Code code;
  std::string message;  // names the object and its place, the cause, and what to do
};
template <typename T>
using Result = tl::expected<T, Error>;
using Bytes = std::vector<std::byte>;

bool valid_key(std::string_view key);

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // After success the object is durable and whole, even through power loss. After failure or a crash the key holds what
  // it held before, or nothing: never a part.
  virtual Result<void> put(const std::string& key, std::span<const std::byte> bytes) = 0;
  virtual Result<Bytes> get(const std::string& key) = 0;
  // Keys below a prefix ("" for all), sorted.
  virtual Result<std::vector<std::string>> list(const std::string& prefix) = 0;
  // Removing what is not there is a success. Durable when it returns.
  virtual Result<void> remove(const std::string& key) = 0;
  // For people: "/var/lib/holdfast/checkpoints/j1" or "http://10.0.0.1:7070 (job j1)".
  virtual std::string describe() const = 0;
};

// A folder; made if absent. Write to a temporary name, fsync, rename, fsync the folder.
Result<std::unique_ptr<ObjectStore>> open_directory_store(const std::string& directory);

// Objects kept by the service, below /v1/jobs/{job}/objects/. `token` is a bearer token.
std::unique_ptr<ObjectStore> open_service_store(const std::string& server_url, const std::string& job, const std::string& token);

}  // namespace holdfast::storage
