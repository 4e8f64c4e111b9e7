// One signed HTTP request at a time, over libcurl, which makes the signature (AWS Signature Version 4) itself.
//
// Promises: a request is sent once, and again by libcurl itself only where a kept connection is found dead before the first
// byte of an answer: every request here may happen twice. Answers have a bound. The credentials are in no error and in no log.
// Plain http: the body's SHA-256 is part of the signature, so that a body that was altered on its way is refused by the server;
// https: TLS sees to that. Thread: one at a time; the object keeps its connection.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "storage/object_store.h"
#include "storage/s3/credentials.h"

namespace holdfast::storage {

struct S3Request {
  std::string method;
  std::string url;                      // escaped; its query sorted, as the signature wants it
  std::span<const std::byte> body{};    // of a PUT
  std::vector<std::string> headers{};   // "name: value"
  std::chrono::milliseconds timeout{};  // for all of it
  size_t bytes_max = kObjectBytesMax;   // of the answer
};

struct S3Answer {
  int status = 0;
  Bytes body;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  std::string text() const { return {reinterpret_cast<const char*>(body.data()), body.size()}; }
};

struct S3Silence {
  std::string cause;     // why no whole answer came: "Connection refused"
  bool stopped = false;  // by `stop`
  bool timed_out = false;
  bool for_good = false;  // it would be the same again: a certificate that is not accepted, an answer that is too long
};

class S3Connection {
 public:
  S3Connection();
  ~S3Connection();
  S3Connection(const S3Connection&) = delete;
  S3Connection& operator=(const S3Connection&) = delete;

  // Signed for `region` where there are credentials. Once *stop is true the request ends within a fifth of a second.
  tl::expected<S3Answer, S3Silence> send(const S3Request& request, const Credentials* credentials, const std::string& region,
                                         const std::atomic<bool>* stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::storage
