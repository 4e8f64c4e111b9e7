// The server's side of TLS: certificate and key, in the files' present version. Part of the server, for this folder alone.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {

class TlsContexts {
 public:
  // The error names the file and what is wrong with it.
  static tl::expected<std::unique_ptr<TlsContexts>, std::string> open(const TlsFiles& files);

  // The context for a new connection. Checks now and then whether the files have changed. When new files cannot be used, the
  // log says why and the old certificate stays.
  std::shared_ptr<boost::asio::ssl::context> current();

 private:
  using Stamp = std::pair<std::filesystem::file_time_type, std::filesystem::file_time_type>;
  explicit TlsContexts(TlsFiles files) : files_(std::move(files)) {}
  Stamp stamp() const;

  TlsFiles files_;
  Stamp read_;  // the files when they were last read
  std::chrono::steady_clock::time_point looked_;
  std::shared_ptr<boost::asio::ssl::context> context_;
};

}  // namespace holdfast::rendezvous
