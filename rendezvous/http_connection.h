// One client's connection: its requests one after the other, each with its answer. Part of the server, for http_*.cpp alone.
//
// Thread: begin() and close() from any; the rest on the connection's strand. It lives as long as something is under way on
// it, or somebody still has to answer it.
#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/http_channel.h"
#include "rendezvous/http_event_stream.h"
#include "rendezvous/http_head.h"
#include "rendezvous/http_server_core.h"

namespace holdfast::rendezvous {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerCore> core, std::unique_ptr<Channel> channel, std::string peer);
  ~Connection();
  Connection(const Connection&) = delete;

  const std::string& peer() const { return peer_; }
  void begin();
  void close();  // once an answer that is on its way was taken
  // The answer to the request under way, for whose body so many bytes were reserved. From any thread.
  void answer(HttpResponse response, size_t reserved);

 private:
  using error_code = boost::system::error_code;

  void expect_request();
  void read_head();
  void on_head(RequestHead head);
  void receive_body();
  void read_body();
  void hand_over();
  void respond(HttpResponse response);
  void write_piece(std::string head, size_t from);
  void begin_stream();
  void pump();
  void watch_reader();
  void end_stream();
  void refuse(HttpResponse response);  // and closes
  void after_answer();
  void linger();
  void discard();
  void end();  // at once

  void set_deadline(std::chrono::milliseconds patience);
  void clear_deadline();

  std::shared_ptr<ServerCore> core_;  // first: the socket below belongs to its io_context
  std::unique_ptr<Channel> channel_;
  const std::string peer_;
  bool stranger_ = true;
  boost::asio::steady_timer deadline_;
  bool late_ = false;     // the deadline passed
  bool reading_ = false;  // a request, which is answered when it comes too late

  std::array<char, 16 << 10> piece_;
  std::string bytes_;  // read and not used yet
  std::optional<HeadParser> parser_;
  RequestHead head_;
  size_t body_read_ = 0;
  size_t reserved_ = 0, answer_reserved_ = 0;
  bool keep_alive_ = true, closing_ = false, writing_ = false;
  HttpResponse response_;
  std::shared_ptr<BufferedEventStream> stream_;
  bool streaming_ = false, pumping_ = false;
  std::string frame_, chunk_;
  size_t discarded_ = 0;
};

}  // namespace holdfast::rendezvous
