// A client that sends bare bytes, for requests that no HTTP library would send.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace holdfast::rendezvous {

class RawClient {
 public:
  explicit RawClient(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{30, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;

  void write(std::string_view bytes) const {
    if (!bytes.empty()) (void)send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void shut_down_writing() const { shutdown(fd_, SHUT_WR); }
  // Waits for bytes and returns them; "" when no more will come.
  std::string read_some() const {
    char piece[4096];
    const ssize_t got = recv(fd_, piece, sizeof piece, 0);
    return {piece, static_cast<size_t>(std::max<ssize_t>(got, 0))};
  }
  // Reads until the other side closes.
  std::string read_all() const {
    std::string all;
    char piece[65536];
    for (ssize_t got = recv(fd_, piece, sizeof piece, 0); got > 0; got = recv(fd_, piece, sizeof piece, 0)) {
      all.append(piece, static_cast<size_t>(got));
    }
    return all;
  }

 private:
  int fd_;
};

}  // namespace holdfast::rendezvous
