// A blocking HTTP/1.1 client over libcurl for the service's API: bearer token, deadlines, problem details decoded.
//
// Promises: this class has a request carried out once at most; to try again is the caller's decision. (libcurl itself sends a
// request again when a kept connection turns out to be dead before the first byte of the answer. A request that must not happen
// twice therefore carries a key.) Replies have a bound. A proxy is never used between programs on one machine. Used by workers,
// the command line and service_store.h. Thread: one object per thread; only cancel() may be called from another thread. The
// object keeps its connection.
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
  std::string location, content_type, date;  // headers; "": the answer has no such header
  // Of an answer by a service that stands by: the moment of the database that it tells of (RFC 3339), and who leads. Else "".
  std::string as_of, leader;
};
struct HttpFailure {
  bool unreachable = false;  // no whole answer came: the request may be tried again
  bool cancelled = false;    // ended by cancel() or set_stop(); `unreachable` is then true, too
  Problem problem;           // the answer, if its status was 400 or above
  std::string base_url;
  std::string cause;            // why `unreachable`: "Connection refused", "no answer within 10 s"
  std::string message() const;  // for people: the URL, the failure and its remedy
};

class HttpClient {
 public:
  // `servers`: as Servers has them. Where there are several, each request goes to the one that leads, which is looked for up to
  // ten seconds; a server that takes connections and answers nothing is left after some three. A question that one which stands
  // by has answered is put to the leader, too; that answer is taken where none leads within four seconds.
  HttpClient(const std::string& servers, std::string token);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;

  const std::string& base_url() const;  // of the server that was asked last
  // Sends this header with every request from now on. Control characters are left out.
  void set_header(const std::string& name, const std::string& value);
  // From now on the server must have this key, whoever signed its certificate and whatever name is in it: "sha256//" and the
  // SHA-256 of the public key in Base64. For https, and without a proxy.
  void trust_only(const std::string& pin);
  // From now on only the status of an answer counts: at most `bytes_max` bytes of its body are read, and none are kept.
  void ignore_bodies(size_t bytes_max);
  // `path` begins with '/'. `timeout` is for the whole request. An answer of 400 or above is a failure.
  tl::expected<HttpReply, HttpFailure> request(std::string_view method, const std::string& path, std::string_view body = {},
                                               std::string_view content_type = "application/json",
                                               std::chrono::milliseconds timeout = std::chrono::seconds(10));
  // Follows server-sent events: calls `on_event` (id, event name, data) until it returns false, or the stream ends or breaks.
  // `last_event_id`: the stream goes on after that event; "": from the beginning.
  tl::expected<void, HttpFailure> stream(
      const std::string& path, const std::string& last_event_id,
      const std::function<bool(const std::string&, const std::string&, const std::string&)>& on_event);
  // From any thread: ends the request under way at once; if there is none, the next request ends as it begins. So a thread
  // that sets "stop" and then cancels cannot miss a request that is about to wait.
  void cancel();
  // Once *stop is true, every request is cancelled within a fifth of a second. nullptr: no request is. `stop` must outlive the
  // requests.
  void set_stop(const std::atomic<bool>* stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// HOLDFAST_CACERT: a PEM file with the authority that signed the service's certificate; "": the authorities that this machine
// trusts. A client reads it when it is made; `--cacert` of the programs sets it.
std::string certificate_authority();
void set_certificate_authority(const std::string& file);  // before there are threads
// HOLDFAST_TOKEN, else the token file `file` ("admin.token" | "worker.token") in the data directory; "" when both are missing.
std::string find_token(const std::string& file);
// HOLDFAST_DATA_DIR, else $XDG_DATA_HOME/holdfast, else ~/.local/share/holdfast. `serve` uses it without --data_dir.
std::string default_data_directory();
// HOLDFAST_SERVER, else http://127.0.0.1:7070.
std::string default_server();

}  // namespace holdfast::rendezvous
