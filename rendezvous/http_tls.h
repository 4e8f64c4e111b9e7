// The server's side of TLS: its certificate and key, as the files have them now. Part of the server, for http_*.cpp alone.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "rendezvous/http_server.h"

namespace holdfast::rendezvous {

class TlsContexts {
 public:
  // The error names the file and what is wrong with it.
  static tl::expected<std::unique_ptr<TlsContexts>, std::string> open(const TlsFiles& files);

  // For a new connection. Looks now and then whether the files have changed; new ones that cannot be used are told of in the
  // log, and the old certificate stays.
  std::shared_ptr<boost::asio::ssl::context> current();

 private:
  using Stamp = std::pair<std::filesystem::file_time_type, std::filesystem::file_time_type>;
  explicit TlsContexts(TlsFiles files) : files_(std::move(files)) {}
  Stamp stamp() const;

  TlsFiles files_;
  Stamp read_;  // of the files when they were read last
  std::chrono::steady_clock::time_point looked_;
  std::shared_ptr<boost::asio::ssl::context> context_;
};

}  // namespace holdfast::rendezvous
