// A connection's bytes, in the clear or through TLS. Part of the server, for this folder alone.
//
// Thread: everything on the connection's strand, which is the executor of its socket; `then` is called there, too. One read
// and one write at a time. The caller keeps the buffers of an operation alive until its `then` is called.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <memory>
#include <string_view>

namespace holdfast::rendezvous {

class Channel {
 public:
  using Then = std::function<void(boost::system::error_code, size_t)>;
  virtual ~Channel() = default;

  virtual void handshake(Then then) = 0;  // first of all
  virtual void read_some(char* to, size_t room, Then then) = 0;
  virtual void write(std::string_view first, std::string_view second, Then then) = 0;  // both, whole
  virtual void end_writing(Then then) = 0;                                             // no more will be sent
  virtual boost::asio::ip::tcp::socket& socket() = 0;
};

std::unique_ptr<Channel> plain_channel(boost::asio::ip::tcp::socket socket);
std::unique_ptr<Channel> tls_channel(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> context);

}  // namespace holdfast::rendezvous
