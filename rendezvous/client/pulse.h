// Whether a server that has not answered a request for long still answers anything: a frozen one does not, and its host takes
// connections all the same.
//
// Asks /healthz on a connection of its own, over the curl multi handle of the client that waits. Thread: that client's.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <string>

namespace holdfast::rendezvous {

class Pulse {
 public:
  explicit Pulse(CURLM* multi) : multi_(multi) {}  // which outlives it
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;
  ~Pulse() { end(); }

  // To be called several times a second while a request waits. True: the server is silent.
  bool is_silent(const std::string& base_url, bool loopback, const std::string& authority);
  // A transfer of the multi handle has ended. True: it was this object's.
  bool took(const CURLMsg& message);

 private:
  void begin(const std::string& base_url, bool loopback, const std::string& authority);
  void end();
  static std::chrono::steady_clock::time_point after_a_pause();

  CURLM* multi_;
  CURL* easy_ = nullptr;
  bool silent_ = false;
  std::chrono::steady_clock::time_point next_ = after_a_pause();
};

}  // namespace holdfast::rendezvous
