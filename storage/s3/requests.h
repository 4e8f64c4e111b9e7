// Requests to one bucket: addresses, tries, and errors in words. Internal to storage/s3.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/s3/credentials.h"
#include "storage/s3/exchange.h"
#include "storage/s3/s3_store.h"

namespace holdfast::storage {

struct S3Failure {
  Error error;
  int status = 0;         // 0: no answer came
  std::string code{};     // of the server's error; "": it named none
  bool may_pass = false;  // by itself: the same request may succeed later
  bool timed_out = false;
};

class S3Bucket {
 public:
  S3Bucket(const S3Place& place, const S3Options& options);

  using Query = std::vector<std::pair<std::string, std::string>>;  // by name, sorted
  struct Call {
    std::string what;  // begins the message of an error: "cannot write step-…"
    std::string method;
    std::string key{};  // of the bucket; "": the bucket itself
    Query query{};
    std::span<const std::byte> body{};
    std::vector<std::string> headers{};
    size_t bytes_max = kObjectBytesMax;  // of the answer
  };
  // Tries until it is answered with a status below 300, or with what will not pass, or until the call's deadline. `tries`: at
  // most so many, 0: any number.
  tl::expected<S3Answer, S3Failure> call(const Call& call, int tries = 0);
  const std::string& describe() const { return described_; }
  const std::string& prefix() const { return prefix_; }  // of all keys: "" or "a/b/"
  Result<Credentials> credentials() { return credentials_.get(); }

 private:
  tl::expected<S3Answer, S3Failure> try_once(S3Connection& connection, const S3Request& request, const Call& call,
                                             const std::atomic<bool>* stop, std::chrono::milliseconds& not_before);
  S3Failure failure_of(const Call& call, const S3Answer& answer) const;
  std::string url_of(const Call& call) const;
  class Lease;

  const S3Options options_;
  std::string base_, described_, prefix_, region_;
  CredentialSource credentials_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<S3Connection>> idle_;
};

}  // namespace holdfast::storage
