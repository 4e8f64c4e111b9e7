// Asio's operations with handlers of one type, std::function: only this file pays for compiling their templates.
#include "rendezvous/http/channel.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <string_view>
#include <utility>

namespace holdfast::rendezvous {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::string_view kSpeaksTls =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 48\r\nConnection: close\r\n\r\n"
    "this port speaks TLS: write https:// for http://";

template <typename Stream>
void write_both(Stream& stream, std::string_view first, std::string_view second, Channel::Then then) {
  const std::array<asio::const_buffer, 2> both = {asio::buffer(first.data(), first.size()),
                                                  asio::buffer(second.data(), second.size())};
  asio::async_write(stream, both, std::move(then));
}

class PlainChannel : public Channel {
 public:
  explicit PlainChannel(tcp::socket socket) : socket_(std::move(socket)) {}

  void handshake(Then then) override {
    asio::post(socket_.get_executor(), [then = std::move(then)] { then({}, 0); });
  }
  void read_some(char* to, size_t room, Then then) override {
    socket_.async_read_some(asio::buffer(to, room), std::move(then));
  }
  void write(std::string_view first, std::string_view second, Then then) override {
    write_both(socket_, first, second, std::move(then));
  }
  void end_writing(Then then) override {
    error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    asio::post(socket_.get_executor(), [then = std::move(then), error] { then(error, 0); });
  }
  tcp::socket& socket() override { return socket_; }

 private:
  tcp::socket socket_;
};

class TlsChannel : public Channel {
 public:
  TlsChannel(tcp::socket socket, std::shared_ptr<asio::ssl::context> context)
      : context_(std::move(context)), stream_(std::move(socket), *context_) {}

  void handshake(Then then) override {
    stream_.async_handshake(asio::ssl::stream_base::server, [this, then = std::move(then)](error_code error) {
      if (ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST) {
        (void)send(stream_.next_layer().native_handle(), kSpeaksTls.data(), kSpeaksTls.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      }
      then(error, 0);
    });
  }
  void read_some(char* to, size_t room, Then then) override {
    stream_.async_read_some(asio::buffer(to, room), std::move(then));
  }
  void write(std::string_view first, std::string_view second, Then then) override {
    write_both(stream_, first, second, std::move(then));
  }
  void end_writing(Then then) override {
    stream_.async_shutdown([then = std::move(then)](error_code error) { then(error, 0); });
  }
  tcp::socket& socket() override { return stream_.next_layer(); }

 private:
  std::shared_ptr<asio::ssl::context> context_;
  asio::ssl::stream<tcp::socket> stream_;
};

}  // namespace

std::unique_ptr<Channel> plain_channel(tcp::socket socket) {
  return std::make_unique<PlainChannel>(std::move(socket));
}

std::unique_ptr<Channel> tls_channel(tcp::socket socket, std::shared_ptr<asio::ssl::context> context) {
  return std::make_unique<TlsChannel>(std::move(socket), std::move(context));
}

}  // namespace holdfast::rendezvous
