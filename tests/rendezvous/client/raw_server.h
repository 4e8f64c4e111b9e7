// A server of bare sockets, for behaviour that a correct server does not show: it sends exactly what the test tells it to.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace holdfast::rendezvous {

// One accepted connection.
class RawConnection {
 public:
  explicit RawConnection(int fd) : fd_(fd) {}
  // Reads a request up to its empty line, and its body of Content-Length bytes; "" when the other side closed.
  std::string read_request() const {
    std::string request;
    char byte = 0;
    while (!request.ends_with("\r\n\r\n")) {
      if (recv(fd_, &byte, 1, 0) != 1) return "";
      request += byte;
    }
    const size_t at = request.find("Content-Length: ");
    size_t left = at == std::string::npos ? 0 : std::stoul(request.substr(at + 16));
    for (; left > 0 && recv(fd_, &byte, 1, 0) == 1; --left) request += byte;
    return request;
  }
  // False: the other side does not read any more.
  bool write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void answer(int status, const std::string& body, const std::string& type = "application/json") const {
    write("HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: " + type +
          "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  // Returns when the other side has closed, or this server ends.
  void wait_closed() const {
    char byte = 0;
    while (recv(fd_, &byte, 1, 0) > 0) {
    }
  }

 private:
  int fd_;
};

class RawServer {
 public:
  // Calls `serve` for each connection on its own thread; the connection closes when `serve` returns.
  explicit RawServer(std::function<void(RawConnection&)> serve)
      : serve_(std::move(serve)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener_, 64);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepter_ = std::thread([this] { accept_all(); });
  }
  ~RawServer() {
    shutdown(listener_, SHUT_RDWR);
    accepter_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    for (const int fd : open_) close(fd);
    close(listener_);
  }
  RawServer(const RawServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int connections() {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(open_.size());
  }

 private:
  void accept_all() {
    for (int fd = accept(listener_, nullptr, nullptr); fd >= 0; fd = accept(listener_, nullptr, nullptr)) {
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      threads_.emplace_back([this, fd] {
        RawConnection connection(fd);
        serve_(connection);
        shutdown(fd, SHUT_RDWR);
      });
    }
  }

  std::function<void(RawConnection&)> serve_;
  int listener_, port_ = 0;
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread accepter_;
};

}  // namespace holdfast::rendezvous
