// A blocking HTTP/1.1 client over libcurl for the service's API: bearer token, deadlines, problem details decoded.
//
// Promises: a request is sent once as far as this code goes; trying again is the caller's. (libcurl sends it again by itself
// when a kept connection turns out dead before one byte of the answer, so what must not happen twice carries a key.)
// No proxy stands between programs on one machine; replies are bounded.
// Used by workers, the command line and the service-side object store. One object per thread; a connection is kept.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

struct HttpReply {
  int status = 0;
  std::string body;
  std::string location, content_type, date;  // headers; "" where absent
};
struct HttpFailure {
  bool unreachable = false;  // no answer, or not a whole one: may be tried again
  bool cancelled = false;    // by cancel(); unreachable too
  Problem problem;           // when there was an answer of 400 or above
  std::string base_url;
  std::string cause;            // of unreachable: "Connection refused", "no answer within 10 s"
  std::string message() const;  // for people: the URL, what happened, what to do
};

class HttpClient {
 public:
  HttpClient(std::string base_url, std::string token);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;

  const std::string& base_url() const;
  // Sent with every request from now on.
  void set_header(const std::string& name, const std::string& value);
  // From now on only the status of an answer counts: its body is not kept, and no more of it than that is read.
  void ignore_bodies(size_t bytes_max);
  // `path` begins with '/'. Answers of 400 and above are failures.
  tl::expected<HttpReply, HttpFailure> request(std::string_view method, const std::string& path, std::string_view body = {},
                                               std::string_view content_type = "application/json",
                                               std::chrono::milliseconds timeout = std::chrono::seconds(10));
  // Server-sent events: calls `on_event` (id, event name, data) until it returns false, the stream ends or breaks.
  tl::expected<void, HttpFailure> stream(
      const std::string& path, const std::string& last_event_id,
      const std::function<bool(const std::string&, const std::string&, const std::string&)>& on_event);
  // From any thread: ends the request under way at once or, when there is none, the next one as it begins. So a thread
  // that says "stop" and then cancels cannot miss one that is about to wait.
  void cancel();
  // Every request from now on is cancelled once this is true, within a fifth of a second; nullptr: none is. It outlives them.
  void set_stop(const std::atomic<bool>* stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// HOLDFAST_CACERT: the file (PEM) of who signed the service's certificate; "": whom this machine trusts. Read when a client is
// made; `--cacert` of the programs sets it.
std::string certificate_authority();
void set_certificate_authority(const std::string& file);  // before there are threads
// HOLDFAST_TOKEN, else the token file `file` ("admin.token" | "worker.token") in the data directory; "" when there is none.
std::string find_token(const std::string& file);
// HOLDFAST_DATA_DIR, else $XDG_DATA_HOME/holdfast, else ~/.local/share/holdfast. What `serve` uses without --data_dir.
std::string default_data_directory();
// HOLDFAST_SERVER, else http://127.0.0.1:7070.
std::string default_server();

}  // namespace holdfast::rendezvous
