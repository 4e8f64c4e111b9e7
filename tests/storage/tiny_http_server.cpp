#include "tests/storage/tiny_http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace holdfast::storage::testing {
namespace {

// The value of a header in the head of a request; upper and lower case in its name do not matter.
std::string header(const std::string& head, const std::string& name) {
  for (size_t at = head.find("\r\n"); at != std::string::npos; at = head.find("\r\n", at + 2)) {
    const size_t begin = at + 2;
    if (head.size() < begin + name.size() || ::strncasecmp(&head[begin], name.c_str(), name.size()) != 0) continue;
    const size_t value = begin + name.size() + 2;  // ": "
    return head.substr(value, head.find("\r\n", value) - value);
  }
  return "";
}

// Reads until `buffer` has `size` bytes; false if the other side closed the connection.
bool fill(int connection, std::string& buffer, size_t size) {
  char bytes[65536];
  while (buffer.size() < size) {
    const ssize_t n = ::recv(connection, bytes, sizeof(bytes), 0);
    if (n <= 0) return false;
    buffer.append(bytes, static_cast<size_t>(n));
  }
  return true;
}

void send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

TinyHttpServer::TinyHttpServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, generic, size) != 0 || ::listen(listener_, 16) != 0 || ::getsockname(listener_, generic, &size) != 0) {
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { accept_all(); });
}

TinyHttpServer::~TinyHttpServer() {
  ::shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  {
    const std::scoped_lock lock(mutex_);
    for (const int connection : connections_) ::shutdown(connection, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  for (const int connection : connections_) ::close(connection);
  ::close(listener_);
}

void TinyHttpServer::accept_all() {
  while (true) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    const std::scoped_lock lock(mutex_);
    connections_.push_back(connection);
    threads_.emplace_back([this, connection] { serve(connection); });
  }
}

void TinyHttpServer::serve(int connection) {
  std::string buffer;
  while (true) {
    size_t end = buffer.find("\r\n\r\n");
    if (end == std::string::npos) {
      if (!fill(connection, buffer, buffer.size() + 1)) return;
      continue;
    }
    const std::string head = buffer.substr(0, end + 2);
    const std::string length = header(head, "content-length");
    const size_t body_bytes = length.empty() ? 0 : std::stoul(length);
    if (header(head, "expect") == "100-continue") send_all(connection, "HTTP/1.1 100 Continue\r\n\r\n");
    end += 4;
    if (!fill(connection, buffer, end + body_bytes)) return;
    const size_t space = head.find(' ');
    const Asked request{head.substr(0, space),
                        head.substr(space + 1, head.find(' ', space + 1) - space - 1),
                        header(head, "authorization"),
                        header(head, "content-type"),
                        header(head, "holdfast-worker"),
                        header(head, "holdfast-incarnation"),
                        header(head, "holdfast-checksum")};
    const Answer reply = answer(request, buffer.substr(end, body_bytes));
    buffer.erase(0, end + body_bytes);
    const std::string reply_head =
        "HTTP/1.1 " + std::to_string(reply.status == kHangUp ? 200 : reply.status) +
        " x\r\ncontent-length: " + std::to_string(reply.body.size() + (reply.status == kHangUp ? 5 : 0)) + "\r\n\r\n";
    send_all(connection, reply.status == 204 ? "HTTP/1.1 204 x\r\n\r\n" : reply_head + reply.body);
    if (reply.status == kHangUp) {
      ::shutdown(connection, SHUT_RDWR);
      return;
    }
  }
}

TinyHttpServer::Answer TinyHttpServer::answer(const Asked& request, const std::string& body) {
  const std::scoped_lock lock(mutex_);
  asked_.push_back(request);
  if (!next_.empty()) {
    const int status = next_.front();
    next_.pop_front();
    return {status, status == kHangUp
                        ? "half"
                        : R"({"status": )" + std::to_string(status) +
                              R"(, "title": "as told", "detail": "the test wants it", "code": ")" + problem_code_ + "\"}"};
  }
  if (request.method == "PUT") {
    objects_[request.target] = body;
    return {204, ""};
  }
  if (request.method == "DELETE") {
    objects_.erase(request.target);
    return {204, ""};
  }
  const size_t query = request.target.find("/objects?prefix=");
  if (query != std::string::npos || request.target.ends_with("/objects")) {
    if (!list_body_.empty()) return {200, list_body_};
    const std::string prefix = query == std::string::npos ? "" : request.target.substr(query + 16);
    const std::string base = request.target.substr(0, request.target.find("/objects")) + "/objects/";
    std::string keys;
    for (const auto& [target, bytes] : objects_) {
      if (target.starts_with(base + prefix)) keys += (keys.empty() ? "\"" : ", \"") + target.substr(base.size()) + "\"";
    }
    return {200, "{\"keys\": [" + keys + "]}"};
  }
  const auto found = objects_.find(request.target);
  if (found == objects_.end()) return {404, R"({"status": 404, "title": "no such object", "code": "not_found"})"};
  return {200, found->second};
}

void TinyHttpServer::answer_next_with(std::vector<int> statuses) {
  const std::scoped_lock lock(mutex_);
  next_.assign(statuses.begin(), statuses.end());
}
void TinyHttpServer::name_problems(std::string code) {
  const std::scoped_lock lock(mutex_);
  problem_code_ = std::move(code);
}
void TinyHttpServer::answer_lists_with(std::string body) {
  const std::scoped_lock lock(mutex_);
  list_body_ = std::move(body);
}
std::vector<TinyHttpServer::Asked> TinyHttpServer::asked() const {
  const std::scoped_lock lock(mutex_);
  return asked_;
}
std::map<std::string, std::string> TinyHttpServer::objects() const {
  const std::scoped_lock lock(mutex_);
  return objects_;
}
void TinyHttpServer::alter(const std::string& target, const std::string& body) {
  const std::scoped_lock lock(mutex_);
  objects_[target] = body;
}

}  // namespace holdfast::storage::testing
