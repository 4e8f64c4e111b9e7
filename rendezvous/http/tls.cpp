// TLS 1.2 and newer, OpenSSL's default ciphers.
#include "rendezvous/http/tls.h"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>

namespace holdfast::rendezvous {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::seconds(10);

tl::expected<std::shared_ptr<ssl::context>, std::string> read_files(const TlsFiles& files) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  error_code error;
  if (files.in_place) {
    context->use_certificate_chain(boost::asio::buffer(files.certificate), error);
    if (!error) context->use_private_key(boost::asio::buffer(files.key), ssl::context::pem, error);
    if (error) return tl::unexpected("cannot use the certificate that was made: " + error.message());
    return context;
  }
  context->use_certificate_chain_file(files.certificate, error);
  if (error) {
    return tl::unexpected(fmt::format("cannot use the certificate {}: {}; expected a chain in PEM, the server's own first",
                                      files.certificate, error.message()));
  }
  context->use_private_key_file(files.key, ssl::context::pem, error);
  if (error) {
    return tl::unexpected(fmt::format("cannot use the key {}: {}; expected the key of {} in PEM, without a passphrase",
                                      files.key, error.message(), files.certificate));
  }
  return context;
}

}  // namespace

TlsContexts::Stamp TlsContexts::stamp() const {
  std::error_code error;
  return {std::filesystem::last_write_time(files_.certificate, error), std::filesystem::last_write_time(files_.key, error)};
}

tl::expected<std::unique_ptr<TlsContexts>, std::string> TlsContexts::open(const TlsFiles& files) {
  std::unique_ptr<TlsContexts> contexts(new TlsContexts(files));
  contexts->read_ = contexts->stamp();
  contexts->looked_ = steady_clock::now();
  auto context = read_files(files);
  if (!context) return tl::unexpected(context.error());
  contexts->context_ = *std::move(context);
  return contexts;
}

std::shared_ptr<ssl::context> TlsContexts::current() {
  if (files_.in_place) return context_;
  const auto now = steady_clock::now();
  if (now < looked_ + kLookEvery) return context_;
  looked_ = now;
  const Stamp present = stamp();
  if (present == read_) return context_;
  read_ = present;
  if (auto context = read_files(files_)) {
    context_ = *std::move(context);
    spdlog::info("new connections get the certificate that {} has now", files_.certificate);
  } else {
    spdlog::error("{}; connections get the certificate from before", context.error());
  }
  return context_;
}

}  // namespace holdfast::rendezvous
