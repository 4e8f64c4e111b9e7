// One client's connection: its requests one after the other, each with its answer. Part of the server, for this folder alone.
//
// Thread: begin(), close() and answer() from any; the rest on the connection's strand. A connection lives as long as a read, a
// write or an answer to its request is still to come.
#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/http/channel.h"
#include "rendezvous/http/head.h"
#include "rendezvous/http/server_core.h"
#include "rendezvous/http/stream_buffer.h"

namespace holdfast::rendezvous {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerCore> core, std::unique_ptr<Channel> channel, std::string peer);
  ~Connection();
  Connection(const Connection&) = delete;

  const std::string& peer() const { return peer_; }
  void begin();
  void close();  // at once, or after the answer that is being sent
  // The answer to the request under way; `reserved`: the bytes that were reserved for its body.
  void answer(HttpResponse response, size_t reserved);

 private:
  using error_code = boost::system::error_code;

  void expect_request();
  void read_head();
  void take_head(RequestHead head);
  void receive_body();
  void read_body();
  void hand_over();
  void respond(HttpResponse response);
  void write_piece(std::string head, size_t from);
  void begin_stream();
  void pump();
  void watch_reader();
  void end_stream();
  void refuse(HttpResponse response);  // answers, and closes the connection
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
  bool reading_ = false;  // a request; one that comes too late is answered

  std::array<char, 16 << 10> piece_;
  std::string bytes_;  // read and not used yet
  std::optional<HeadParser> parser_;
  RequestHead head_;
  Handler handler_;  // of the request whose body is being read
  size_t body_read_ = 0;
  size_t reserved_ = 0, answer_reserved_ = 0;
  bool keep_alive_ = true, closing_ = false, writing_ = false;
  HttpResponse response_;
  std::shared_ptr<StreamBuffer> stream_;
  bool streaming_ = false, pumping_ = false, in_chunks_ = false;
  std::string frame_, chunk_;
  size_t discarded_ = 0;
};

}  // namespace holdfast::rendezvous
