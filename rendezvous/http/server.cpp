// Accepts connections, and runs them on a few threads; connection.h says what is done with each.
//
// Boost.Asio and Boost.Beast's parser rather than cpprestsdk's listener: that listener reads header lines without a bound and
// waits for them without a deadline, and neither can be added from outside.
#include "rendezvous/http/server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <thread>
#include <vector>

#include "rendezvous/http/connection.h"
#include "rendezvous/http/listen_address.h"
#include "rendezvous/http/tls.h"

namespace holdfast::rendezvous {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kThreads = 2;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // when the process cannot open more files
constexpr int kUnackedPatienceMs = 60'000;                     // a peer that acknowledges nothing for so long is gone
constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

std::string address_of(const tcp::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return "";
  const auto address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

void set_options(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnackedPatienceMs, sizeof kUnackedPatienceMs);
}

class AsioHttpServer : public HttpServer {
 public:
  AsioHttpServer(const ListeningSocket& listening, std::shared_ptr<ServerCore> core, std::unique_ptr<TlsContexts> tls)
      : port_(listening.port),
        core_(std::move(core)),
        tls_(std::move(tls)),
        acceptor_(asio::make_strand(core_->io()), listening.ipv6 ? tcp::v6() : tcp::v4(), listening.file),
        pause_(acceptor_.get_executor()),
        working_(core_->io().get_executor()) {
    accept();
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { core_->io().run(); });
  }

  ~AsioHttpServer() override {
    asio::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
    });
    core_->stop();
    working_.reset();
    for (std::thread& thread : threads_) thread.join();  // they end when the last connection has
  }

  int port() const override { return port_; }
  HttpServerCounts counts() const override { return core_->counts(); }

 private:
  void accept() {
    acceptor_.async_accept(asio::make_strand(core_->io()), [this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!error) {
        take(std::move(socket));
        return accept();
      }
      if (error == asio::error::connection_aborted) return accept();
      // The process has no more files: connections that end will make room.
      spdlog::warn("cannot accept a connection: {}; trying again", error.message());
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](error_code cancelled) {
        if (!cancelled) accept();
      });
    });
  }

  void take(tcp::socket socket) {
    set_options(socket);
    std::string peer = address_of(socket);
    const int file = socket.native_handle();
    auto channel = tls_ ? tls_channel(std::move(socket), tls_->current()) : plain_channel(std::move(socket));
    const auto connection = std::make_shared<Connection>(core_, std::move(channel), std::move(peer));
    if (core_->enter(connection)) return connection->begin();
    if (!tls_) (void)send(file, kTooMany.data(), kTooMany.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  const int port_;
  const std::shared_ptr<ServerCore> core_;
  const std::unique_ptr<TlsContexts> tls_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  asio::executor_work_guard<asio::io_context::executor_type> working_;
  std::vector<std::thread> threads_;
};

}  // namespace

tl::expected<std::unique_ptr<HttpServer>, std::string> HttpServer::start(const HttpServerOptions& options, Gate gate) {
  std::unique_ptr<TlsContexts> tls;
  if (!options.tls.certificate.empty()) {
    auto opened = TlsContexts::open(options.tls);
    if (!opened) return tl::unexpected(opened.error());
    tls = *std::move(opened);
  }
  const auto listening = listen_on(options.listen);
  if (!listening) return tl::unexpected(listening.error());
  return std::make_unique<AsioHttpServer>(*listening, std::make_shared<ServerCore>(options, std::move(gate)), std::move(tls));
}

tl::expected<std::unique_ptr<HttpServer>, std::string> HttpServer::start(const HttpServerOptions& options, Handler handler) {
  return start(options, [handler = std::move(handler)](const HttpRequest&) { return Admission{std::nullopt, false, handler}; });
}

}  // namespace holdfast::rendezvous
