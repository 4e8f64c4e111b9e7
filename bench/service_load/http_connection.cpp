#include "bench/service_load/http_connection.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace holdfast::bench {
namespace {

std::string why() {
  return std::error_code(errno, std::system_category()).message();
}

std::optional<size_t> number(std::string_view text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// The value of Content-Length in "name: value" lines.
std::optional<size_t> length_in(std::string_view head) {
  constexpr std::string_view kName = "content-length:";
  for (size_t line = head.find("\r\n"); line != std::string_view::npos; line = head.find("\r\n", line + 2)) {
    const std::string_view rest = head.substr(line + 2);
    const bool is_it = rest.size() >= kName.size() && std::equal(kName.begin(), kName.end(), rest.begin(), [](char a, char b) {
                         return a == std::tolower(static_cast<unsigned char>(b));
                       });
    if (!is_it) continue;
    const size_t value = rest.find_first_not_of(' ', kName.size());
    return value == std::string_view::npos ? std::nullopt : number(rest.substr(value));
  }
  return std::nullopt;
}

}  // namespace

bool HttpConnection::connect() {
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return false;
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto* address = reinterpret_cast<const sockaddr*>(&place_.address);
  if (::connect(socket_, address, sizeof place_.address) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    close(std::exchange(socket_, -1));
    errno = error;
    return false;
  }
  loop_.watch(socket_, EPOLLIN | EPOLLOUT, [this](uint32_t events) { on_ready(events); });
  return true;
}

void HttpConnection::disconnect() {
  if (socket_ < 0) return;
  loop_.forget(socket_);
  close(std::exchange(socket_, -1));
}

void HttpConnection::send(const std::string& method, const std::string& path, const std::string& body, OnAnswer on_answer) {
  on_answer_ = std::move(on_answer);
  in_.clear();
  out_ = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n", method, path, place_.host, place_.token);
  if (!body.empty()) out_ += "Content-Type: application/json\r\n";
  if (!body.empty() || method != "GET") out_ += fmt::format("Content-Length: {}\r\n", body.size());
  out_ += "\r\n" + body;
  if (socket_ >= 0) return write_some();
  if (!connect()) fail("no connection: " + why());  // else it is written when the connection stands
}

void HttpConnection::on_ready(uint32_t events) {
  if ((events & EPOLLOUT) != 0 && !out_.empty()) write_some();
  if (socket_ >= 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_some();
}

void HttpConnection::write_some() {
  while (!out_.empty()) {
    const ssize_t sent = ::send(socket_, out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) return fail("cannot send: " + why());
    out_.erase(0, static_cast<size_t>(sent));
  }
  loop_.change(socket_, out_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

void HttpConnection::read_some() {
  std::array<char, 16384> piece;
  while (true) {
    const ssize_t got = recv(socket_, piece.data(), piece.size(), 0);
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) return fail(got == 0 ? "the service closed the connection" : "cannot receive: " + why());
    in_.append(piece.data(), static_cast<size_t>(got));
  }
  HttpAnswer answer;
  if (!busy() || !answer_is_whole(answer)) return;
  if (answer.status == 0) disconnect();  // further bytes would be taken for the next answer
  finish(std::move(answer));
}

bool HttpConnection::answer_is_whole(HttpAnswer& answer) const {
  const size_t end = in_.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  const std::string_view head = std::string_view(in_).substr(0, end);
  const size_t status = head.starts_with("HTTP/1.1 ") ? number(head.substr(9)).value_or(0) : 0;
  auto length = length_in(head);
  if (status == 204) length = 0;
  if (status == 0 || !length) {
    answer.body = "an answer that is not understood: " + std::string(head.substr(0, 200));
    return true;
  }
  if (in_.size() < end + 4 + *length) return false;
  answer.status = static_cast<int>(status);
  answer.body = in_.substr(end + 4, *length);
  return true;
}

void HttpConnection::finish(HttpAnswer answer) {
  answer.at = Clock::now();
  in_.clear();
  const OnAnswer on_answer = std::exchange(on_answer_, nullptr);
  on_answer(answer);
}

void HttpConnection::fail(const std::string& why_not) {
  disconnect();
  out_.clear();
  if (busy()) loop_.soon([this, why_not] { finish({0, why_not, {}}); });
}

}  // namespace holdfast::bench
