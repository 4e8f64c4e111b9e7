// The completion of each read or write begins the next one: a connection has one of each at most. Every state has a deadline,
// except the time in which a handler works on the request.
#include "rendezvous/http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "rendezvous/http/request_rules.h"

namespace holdfast::rendezvous {
namespace {

using boost::asio::post;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kWritePiece = 256 << 10;  // of an answer; each piece has a deadline of its own
// After the last answer the connection still reads and drops what comes, so that the client sees the answer and not a reset.
constexpr auto kLinger = seconds(5);
constexpr size_t kLingerBytesMax = 64 << 20;
constexpr auto kFarewellPatience = seconds(2);  // for the answer that is being sent when the server ends

HttpResponse busy(const std::string& why) {
  HttpResponse response = refusal(503, "busy", why);
  response.headers.emplace("Retry-After", "1");
  return response;
}

// A request in the hands of its handler. The first answer counts; the destructor gives one where there was none.
class Exchange {
 public:
  Exchange(std::shared_ptr<Connection> connection, size_t reserved) : connection_(std::move(connection)), reserved_(reserved) {}
  ~Exchange() { answer(refusal(500, "no_answer", "the service dropped this request without an answer: try again")); }
  Exchange(const Exchange&) = delete;

  void answer(HttpResponse response) {
    if (!answered_.exchange(true)) connection_->answer(std::move(response), reserved_);
  }

 private:
  std::shared_ptr<Connection> connection_;
  const size_t reserved_;
  std::atomic<bool> answered_ = false;
};

}  // namespace

// --- its life

Connection::Connection(std::shared_ptr<ServerCore> core, std::unique_ptr<Channel> channel, std::string peer)
    : core_(std::move(core)),
      channel_(std::move(channel)),
      peer_(std::move(peer)),
      deadline_(channel_->socket().get_executor()) {}

Connection::~Connection() {
  if (stream_) stream_->cut();
  if (streaming_) core_->count_stream(-1);
  if (reserved_ > 0) core_->release(reserved_);
  if (answer_reserved_ > 0) core_->release_answer(answer_reserved_);
  core_->leave(this, stranger_);
}

void Connection::begin() {
  post(channel_->socket().get_executor(), [self = shared_from_this()] {
    self->set_deadline(self->core_->options().head_patience);
    self->channel_->handshake([self](error_code error, size_t) {
      if (error || self->late_) return self->end();
      self->expect_request();
    });
  });
}

void Connection::close() {
  post(channel_->socket().get_executor(), [self = shared_from_this()] {
    self->closing_ = true;
    if (!self->writing_) return self->end();
    self->set_deadline(kFarewellPatience);
  });
}

void Connection::end() {
  clear_deadline();
  if (stream_) stream_->cut();
  error_code ignored;
  channel_->socket().close(ignored);
}

void Connection::set_deadline(milliseconds patience) {
  late_ = false;
  deadline_.expires_after(patience);
  deadline_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (cancelled || !self || self->deadline_.expiry() > std::chrono::steady_clock::now()) return;
    self->late_ = true;
    error_code ignored;
    // The read of a request ends, and its completion answers 408 because of late_ (a read that has completed already is not
    // cancelled). In any other state there is nothing to answer.
    if (!self->reading_) {
      self->channel_->socket().close(ignored);
      return;
    }
    self->channel_->socket().cancel(ignored);
    // TLS may go on with another read of a part of a record, which was not there to be cancelled.
    self->deadline_.expires_after(kFarewellPatience);
    self->deadline_.async_wait([weak](error_code over) {
      const auto there = weak.lock();
      if (over || !there || !there->late_ || !there->reading_) return;
      error_code nobody;
      there->channel_->socket().close(nobody);
    });
  });
}

void Connection::clear_deadline() {
  late_ = false;
  deadline_.expires_at(boost::asio::steady_timer::time_point::max());
}

// --- a request

void Connection::expect_request() {
  parser_.emplace();
  head_ = {};
  body_read_ = 0;
  reading_ = true;
  read_head();
}

void Connection::read_head() {
  if (!bytes_.empty()) {
    if (auto head = parser_->parse(bytes_)) return take_head(std::move(*head));
  }
  channel_->read_some(piece_.data(), piece_.size(), [self = shared_from_this()](error_code error, size_t got) {
    if (self->late_ && !self->bytes_.empty()) {
      return self->refuse(refusal(408, "head_timeout", "the request's line and headers did not arrive in time"));
    }
    if (error) return self->end();  // the client left, or sent nothing in time
    if (self->bytes_.empty()) self->set_deadline(self->core_->options().head_patience);
    self->bytes_.append(self->piece_.data(), got);
    self->read_head();
  });
}

void Connection::take_head(RequestHead head) {
  head_ = std::move(head);
  keep_alive_ = head_.keep_alive;
  if (head_.refused) return refuse(std::move(*head_.refused));
  head_.request.peer = peer_;
  const HttpServerOptions& options = core_->options();
  Admission admission = core_->gate()(head_.request);
  if (admission.known && std::exchange(stranger_, false)) core_->know(peer_);
  if (auto& refused = admission.refusal) {
    // A body that has arrived already is dropped, and the connection goes on; a body that is still to come ends it.
    keep_alive_ = keep_alive_ && head_.body_bytes <= bytes_.size();
    bytes_.erase(0, keep_alive_ ? head_.body_bytes : 0);
    return respond(std::move(*refused));
  }
  handler_ = std::move(admission.handler);
  const size_t bound = body_bound(head_.request, options);
  if (head_.body_bytes > bound) return refuse(too_large(head_.body_bytes, bound));
  if (!core_->reserve(head_.body_bytes)) {
    return refuse(busy("the service holds as many request bodies as it has room for: try again"));
  }
  reserved_ = head_.body_bytes;
  if (head_.body_bytes == 0) return hand_over();
  receive_body();
}

void Connection::receive_body() {
  head_.request.body.resize(head_.body_bytes);
  body_read_ = std::min(bytes_.size(), head_.body_bytes);
  std::copy_n(bytes_.begin(), body_read_, head_.request.body.begin());
  bytes_.erase(0, body_read_);
  set_deadline(core_->options().body_patience + seconds(head_.body_bytes >> 20));
  if (!head_.wants_continue || body_read_ > 0) return read_body();
  channel_->write("HTTP/1.1 100 Continue\r\n\r\n", {}, [self = shared_from_this()](error_code error, size_t) {
    if (error || self->late_) return self->end();
    self->read_body();
  });
}

void Connection::read_body() {
  if (body_read_ == head_.body_bytes) return hand_over();
  channel_->read_some(head_.request.body.data() + body_read_, head_.body_bytes - body_read_,
                      [self = shared_from_this()](error_code error, size_t got) {
                        if (self->late_) {
                          return self->refuse(refusal(408, "body_timeout", "the body did not arrive in time"));
                        }
                        if (error) return self->end();  // the client left inside its body
                        self->body_read_ += got;
                        self->read_body();
                      });
}

void Connection::hand_over() {
  reading_ = false;
  clear_deadline();
  const auto exchange = std::make_shared<Exchange>(shared_from_this(), std::exchange(reserved_, 0));
  try {
    std::exchange(handler_, nullptr)(std::move(head_.request),
                                     [exchange](HttpResponse response) { exchange->answer(std::move(response)); });
  } catch (const std::exception& error) {
    exchange->answer(refusal(500, "internal_error", error.what()));
  }
}

// --- its answer

void Connection::answer(HttpResponse response, size_t reserved) {
  core_->release(reserved);
  core_->unless_stopping([&] {
    post(channel_->socket().get_executor(),
         [self = shared_from_this(), response = std::move(response)]() mutable { self->respond(std::move(response)); });
  });
}

void Connection::refuse(HttpResponse response) {
  keep_alive_ = false;
  respond(std::move(response));
}

void Connection::respond(HttpResponse response) {
  reading_ = false;
  core_->release(std::exchange(reserved_, 0));
  response_ = std::move(response);
  if (response_.body.size() > core_->options().max_body_bytes && answer_reserved_ == 0) {
    answer_reserved_ = response_.body.size();
    if (!core_->reserve_answer(answer_reserved_)) {
      answer_reserved_ = 0;
      response_ = busy("the service sends as many large answers as it has room for: try again");
    }
  }
  if (response_.on_stream && !head_.is_head) return begin_stream();
  const std::optional<size_t> length = response_.on_stream ? response_.stream_bytes : std::optional(response_.body.size());
  std::string head = response_head(response_, length, keep_alive_, head_.old_version);
  if (head_.is_head) response_.body.clear();
  write_piece(std::move(head), 0);
}

// The head goes with the body's first piece, in one packet where they fit.
void Connection::write_piece(std::string head, size_t from) {
  if (!closing_) set_deadline(core_->options().write_patience);
  writing_ = true;
  frame_ = std::move(head);
  const size_t size = std::min(kWritePiece, response_.body.size() - from);
  const std::string_view piece = std::string_view(response_.body).substr(from, size);
  channel_->write(frame_, piece, [self = shared_from_this(), next = from + size](error_code error, size_t) {
    if (error) return self->end();
    if (next < self->response_.body.size()) return self->write_piece({}, next);
    self->writing_ = false;
    self->response_ = {};
    if (self->answer_reserved_ > 0) self->core_->release_answer(std::exchange(self->answer_reserved_, 0));
    self->after_answer();
  });
}

void Connection::after_answer() {
  if (closing_) return end();
  if (!keep_alive_) return linger();
  set_deadline(bytes_.empty() ? core_->options().idle_patience : core_->options().head_patience);
  expect_request();
}

void Connection::linger() {
  set_deadline(kLinger);
  channel_->end_writing([self = shared_from_this()](error_code, size_t) { self->discard(); });
}

void Connection::discard() {
  channel_->read_some(piece_.data(), piece_.size(), [self = shared_from_this()](error_code error, size_t got) {
    self->discarded_ += got;
    if (error || self->discarded_ > kLingerBytesMax) return self->end();
    self->discard();
  });
}

// --- an answer that goes on

void Connection::begin_stream() {
  keep_alive_ = false;  // the watching read may take what would belong to a next request
  const size_t unread_max = response_.stream_unread_max.value_or(core_->options().max_stream_buffer_bytes);
  stream_ = std::make_shared<StreamBuffer>(unread_max, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    post(self->channel_->socket().get_executor(), [weak] {  // weak: the io_context may never run it
      if (const auto there = weak.lock()) there->pump();
    });
  });
  streaming_ = pumping_ = true;
  core_->count_stream(1);
  set_deadline(core_->options().write_patience);
  in_chunks_ = !response_.stream_bytes && !head_.old_version;
  frame_ = response_head(response_, response_.stream_bytes, keep_alive_, head_.old_version);
  channel_->write(frame_, {}, [self = shared_from_this()](error_code error, size_t) {
    self->pumping_ = false;
    if (error) return self->end();
    self->pump();
  });
  watch_reader();
  std::exchange(response_.on_stream, nullptr)(stream_);
}

// Sends the next bytes of the stream, and is called again when they are sent.
void Connection::pump() {
  if (pumping_ || !streaming_) return;
  clear_deadline();
  StreamBuffer::Taken taken = stream_->take();
  if (taken.cut) return end();
  if (taken.ended) return end_stream();
  if (taken.bytes.empty()) return;
  pumping_ = true;
  chunk_ = std::move(taken.bytes);
  const size_t size = chunk_.size();
  frame_.clear();
  if (in_chunks_) {
    frame_ = fmt::format("{:x}\r\n", size);
    chunk_ += "\r\n";
  }
  set_deadline(core_->options().write_patience);
  channel_->write(frame_, chunk_, [self = shared_from_this(), size](error_code error, size_t) {
    self->pumping_ = false;
    self->stream_->sent(size);
    if (error) return self->end();
    self->pump();
  });
}

// A reader sends nothing more. A read that completes means that it left; bytes are dropped.
void Connection::watch_reader() {
  channel_->read_some(piece_.data(), piece_.size(), [self = shared_from_this()](error_code error, size_t) {
    if (!self->streaming_) return;
    if (error && !(error == boost::asio::error::operation_aborted && !self->late_)) return self->end();
    if (!error) self->watch_reader();
  });
}

void Connection::end_stream() {
  streaming_ = false;
  core_->count_stream(-1);
  set_deadline(core_->options().write_patience);
  error_code ignored;
  channel_->socket().cancel(ignored);
  frame_ = in_chunks_ ? "0\r\n\r\n" : "";
  channel_->write(frame_, {}, [self = shared_from_this()](error_code error, size_t) {
    if (error) return self->end();
    self->linger();
  });
}

}  // namespace holdfast::rendezvous
