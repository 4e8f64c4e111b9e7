// A small HTTP server for tests of the service store. It keeps objects in a map, records every request, and on demand answers
// the next requests with errors.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::storage::testing {

class TinyHttpServer {
 public:
  TinyHttpServer();  // on a free port of 127.0.0.1
  ~TinyHttpServer();
  TinyHttpServer(const TinyHttpServer&) = delete;
  TinyHttpServer& operator=(const TinyHttpServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  // The next requests are answered with these statuses, in order. kHangUp: the connection is closed after half of the answer.
  static constexpr int kHangUp = -1;
  void answer_next_with(std::vector<int> statuses);
  // The "code" in the problems of those answers.
  void name_problems(std::string code);
  void answer_lists_with(std::string body);

  struct Asked {
    std::string method, target, token, content_type, worker, incarnation, checksum;
  };
  std::vector<Asked> asked() const;
  std::map<std::string, std::string> objects() const;  // by target
  void alter(const std::string& target, const std::string& body);

 private:
  struct Answer {
    int status = 200;
    std::string body;
  };
  void accept_all();
  void serve(int connection);
  Answer answer(const Asked& request, const std::string& body);

  int listener_ = -1, port_ = 0;
  mutable std::mutex mutex_;
  std::deque<int> next_;
  std::string list_body_, problem_code_;
  std::vector<Asked> asked_;
  std::map<std::string, std::string> objects_;
  std::vector<int> connections_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

}  // namespace holdfast::storage::testing
