// A submit whose answer is lost: one job is made, and the user gets its id.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/ops/cli/cli_runner.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;

// Ends the first connection without an answer, as a service that dies after making the job; answers the second.
class DroppingService {
 public:
  DroppingService() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] {
      serve("");
      serve("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"id\":\"j7\"}");
    });
  }
  ~DroppingService() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  const std::string& url() const { return url_; }
  std::vector<std::string> keys;  // the Idempotency-Keys of the requests, in order

 private:
  void serve(const std::string& answer) {
    const int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) return;
    std::string request;
    char piece[4096];
    while (request.find("train.bin") == std::string::npos) {  // this text is in the body
      const ssize_t got = recv(connection, piece, sizeof piece, 0);
      if (got <= 0) break;
      request.append(piece, static_cast<size_t>(got));
    }
    const size_t key = request.find("Idempotency-Key: ");
    keys.push_back(key == std::string::npos ? "" : request.substr(key + 17, 32));
    (void)send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
    close(connection);
  }
  int listener_;
  std::string url_;
  std::thread thread_;
};

TEST(Submit, ALostAnswerIsAskedForAgainUnderTheSameKey) {
  DroppingService service;
  const Said said = holdfast({"submit", "--train_data_path", "/data/train.bin", "--server", service.url()});
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_EQ(said.out, "j7\n");
  EXPECT_THAT(said.err, HasSubstr("asking again"));
  ASSERT_EQ(service.keys.size(), 2U);
  EXPECT_EQ(service.keys[0].size(), 32U);
  EXPECT_EQ(service.keys[0], service.keys[1]);
}

}  // namespace
}  // namespace holdfast::ops
