// HTTP over libcurl: one easy handle, kept because it holds the connection. A multi handle drives it, so that another thread
// can wake it (curl_multi_wakeup) and a cancel takes effect at once.
#include "rendezvous/client/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "rendezvous/client/event_stream_parser.h"
#include "rendezvous/client/http_client_failures.h"
#include "rendezvous/client/pulse.h"
#include "rendezvous/client/servers.h"
#include "rendezvous/client/url.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectTimeout{3000}, kOfSeveral{1200};  // of several servers: after TCP's second try, 1 s later
constexpr size_t kReplyBytesMax = size_t{257} << 20;             // the largest object that the service takes, and 1 MiB
constexpr size_t kReserveMax = 64 << 20;  // for an answer that announces its length: it is not believed beyond this
constexpr long kReadAtOnce = 256 << 10;   // libcurl's own 16 KiB cost a gigabit link much of a core
constexpr size_t kProblemBytesMax = 1 << 20, kHeaderBytesMax = 64 << 10;
constexpr milliseconds kLeaderPatience{10'000}, kStandbyPatience{4'000}, kLeaderPause{200};
constexpr const char* kNotLeader = "not_leader";

// A line break in a token or name would begin another header.
std::string one_line(std::string text) {
  std::erase_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return text;
}

// The answer to a request under way. It collects the body, or hands it to `on_bytes` while the status is below 400. With
// `ignored_max` it reads at most that many bytes of the body and keeps none.
struct Exchange {
  CURL* easy = nullptr;
  HttpReply reply;
  size_t ignored_max = 0, ignored = 0;
  size_t header_bytes = 0;
  std::function<bool(std::string_view)> on_bytes;
  bool stopped_by_reader = false;  // enough of the answer was read
  std::string refusal;             // why this side ended the request
  bool nothing_done = false;       // the service refused it at the door
  std::string leader, as_of;       // where it says that the leader is; of one that stands by, the moment that it tells of
  int64_t term = 0;                // of the service that answered; 0: it has none
};

size_t take_header(char* data, size_t, size_t size, void* pointer) {
  auto& exchange = *static_cast<Exchange*>(pointer);
  exchange.header_bytes += size;
  if (exchange.header_bytes > kHeaderBytesMax) {
    exchange.refusal = "the answer's headers are longer than 64 KiB";
    return 0;
  }
  const std::string_view line(data, size);
  const size_t colon = line.find(':');
  if (colon == line.npos) return size;
  std::string name(line.substr(0, colon));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string value(line.substr(colon + 1));
  value.erase(0, value.find_first_not_of(" \t"));
  value.erase(value.find_last_not_of(" \t\r\n") + 1);
  if (name == "location") exchange.reply.location = value;
  if (name == "content-type") exchange.reply.content_type = value;
  if (name == "date") exchange.reply.date = value;
  if (name == "holdfast-leader") exchange.leader = value;
  if (name == "holdfast-nothing-done") exchange.nothing_done = true;
  if (name == "holdfast-as-of") exchange.as_of = value;
  if (name == "holdfast-term") exchange.term = std::strtoll(value.c_str(), nullptr, 10);
  return size;
}

size_t take_body(char* data, size_t, size_t size, void* pointer) {
  auto& exchange = *static_cast<Exchange*>(pointer);
  if (exchange.ignored_max > 0) {
    exchange.ignored += size;
    exchange.stopped_by_reader = exchange.ignored > exchange.ignored_max;
    return exchange.stopped_by_reader ? 0 : size;
  }
  long status = 0;
  curl_easy_getinfo(exchange.easy, CURLINFO_RESPONSE_CODE, &status);
  if (exchange.on_bytes && status < 400) {
    exchange.stopped_by_reader = !exchange.on_bytes({data, size});
    return exchange.stopped_by_reader ? 0 : size;
  }
  if (status >= 400 && exchange.reply.body.size() + size > kProblemBytesMax) {
    exchange.stopped_by_reader = true;  // the status says enough
    return 0;
  }
  if (exchange.reply.body.size() + size > kReplyBytesMax) {
    exchange.refusal = fmt::format("the answer is longer than {} MiB", kReplyBytesMax >> 20);
    return 0;
  }
  if (exchange.reply.body.empty()) {
    curl_off_t announced = 0;
    curl_easy_getinfo(exchange.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    if (announced > 0) exchange.reply.body.reserve(std::min(static_cast<size_t>(announced), kReserveMax));
  }
  exchange.reply.body.append(data, size);
  return size;
}

}  // namespace

struct HttpClient::Impl {
  const std::shared_ptr<Servers> servers;
  std::string base_url;  // of the server that is asked now
  std::string token;
  bool loopback = false;
  const std::string authority = certificate_authority();
  std::map<std::string, std::string> headers;
  std::string pin;  // "": any server whose certificate an authority signed
  CURLM* multi = nullptr;
  CURL* easy = nullptr;
  size_t ignored_max = 0;
  std::atomic<bool> cancelled = false;
  const std::atomic<bool>* stop = nullptr;
  std::map<std::string, int64_t> silences;  // of each server, when it answered last

  Impl(const std::string& url, std::string bearer) : servers(Servers::of(url)), token(one_line(std::move(bearer))) {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_ALL); });
    multi = curl_multi_init();
    easy = curl_easy_init();
    if (multi == nullptr || easy == nullptr) throw std::bad_alloc();
    choose_server();
  }
  Impl(const Impl&) = delete;
  ~Impl() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
  }

  void choose_server() {
    base_url = servers->current();
    loopback = is_loopback_host(host_of_url(base_url));
  }

  HttpFailure unreachable(std::string cause, bool by_cancel = false) const {
    HttpFailure failure;
    failure.unreachable = true;
    failure.cancelled = by_cancel;
    failure.base_url = base_url;
    failure.cause = std::move(cause);
    return failure;
  }

  milliseconds connect_timeout(milliseconds timeout) const {
    const milliseconds most = servers->size() > 1 ? kOfSeveral : kConnectTimeout;
    return timeout > milliseconds(0) ? std::min(timeout, most) : most;  // a stream has none
  }

  curl_slist* header_list(std::string_view body, std::string_view content_type, const std::string& accept) const {
    curl_slist* list = curl_slist_append(nullptr, "Expect:");  // no round trip before a large body
    const auto add = [&](const std::string& line) { list = curl_slist_append(list, line.c_str()); };
    if (!token.empty()) add(fmt::format("Authorization: Bearer {}", token));
    if (!body.empty()) add(fmt::format("Content-Type: {}", content_type));
    if (!accept.empty()) add(fmt::format("Accept: {}", accept));
    if (const int64_t term = servers->term(); term > 0) add(fmt::format("Holdfast-Term: {}", term));
    for (const auto& [name, value] : headers) add(fmt::format("{}: {}", name, value));
    return list;
  }

  void prepare(Exchange& exchange, std::string_view method, const std::string& path, std::string_view body, curl_slist* list,
               milliseconds timeout, char* error_text) {
    curl_easy_reset(easy);  // keeps the connection
    const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(easy, option, value); };
    set(CURLOPT_URL, (base_url + path).c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_ERRORBUFFER, error_text);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect_timeout(timeout).count()));
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
    set(CURLOPT_BUFFERSIZE, kReadAtOnce);
    set(CURLOPT_FRESH_CONNECT, servers->silences(base_url) == silences[base_url] ? 0L : 1L);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_TCP_KEEPIDLE, 15L);
    set(CURLOPT_TCP_KEEPINTVL, 5L);
    set(CURLOPT_USERAGENT, fmt::format("holdfast/{}", kHoldfastVersion).c_str());
    if (loopback || !pin.empty()) set(CURLOPT_NOPROXY, "*");
    if (!authority.empty()) set(CURLOPT_CAINFO, authority.c_str());
    if (!pin.empty()) {
      set(CURLOPT_PINNEDPUBLICKEY, pin.c_str());
      set(CURLOPT_SSL_VERIFYPEER, 0L);
      set(CURLOPT_SSL_VERIFYHOST, 0L);
    }
    set(CURLOPT_HTTPHEADER, list);
    set(CURLOPT_HEADERFUNCTION, &take_header);
    set(CURLOPT_HEADERDATA, &exchange);
    set(CURLOPT_WRITEFUNCTION, &take_body);
    set(CURLOPT_WRITEDATA, &exchange);
    const std::string verb(method);
    if (verb == "HEAD") set(CURLOPT_NOBODY, 1L);
    if (verb != "GET" && verb != "HEAD") {
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
      set(CURLOPT_POSTFIELDS, body.empty() ? "" : body.data());
      set(CURLOPT_CUSTOMREQUEST, verb.c_str());
    }
  }

  // Runs the easy handle to its end. Returns its code, or nothing when the request was cancelled or its server left, with
  // `why_left`.
  std::optional<CURLcode> drive(std::string& why_left) {
    curl_multi_add_handle(multi, easy);
    std::optional<CURLcode> code;
    const bool several = servers->size() > 1;
    Pulse pulse(multi);
    const int patience_ms = stop == nullptr && !several ? 1000 : 200;
    for (int running = 1; !code && !cancelled.exchange(false) && (stop == nullptr || !*stop) && why_left.empty();) {
      curl_multi_perform(multi, &running);
      int left = 0;
      while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
        if (message->msg == CURLMSG_DONE && !pulse.took(*message)) code = message->data.result;
      }
      if (code || cancelled) continue;
      if (several && servers->current() != base_url) {
        why_left = "the lead went to " + servers->current();
      } else if (several && pulse.is_silent(base_url, loopback, authority)) {
        why_left = "it takes connections and answers nothing";
        servers->note_silence(base_url);
        servers->leave(base_url);
      } else {
        curl_multi_poll(multi, nullptr, 0, patience_ms, nullptr);
      }
    }
    curl_multi_remove_handle(multi, easy);
    return code;
  }

  // Asks the present server once. `sent`: whether it may have been asked, as far as is known.
  tl::expected<HttpReply, HttpFailure> ask_once(Exchange& exchange, std::string_view method, const std::string& path,
                                                std::string_view body, std::string_view content_type, const std::string& accept,
                                                milliseconds timeout, bool& sent) {
    exchange.easy = easy;
    char error_text[CURL_ERROR_SIZE] = "";
    const std::unique_ptr<curl_slist, void (*)(curl_slist*)> list(header_list(body, content_type, accept),
                                                                  &curl_slist_free_all);
    prepare(exchange, method, path, body, list.get(), timeout, error_text);
    std::string why_left;
    const std::optional<CURLcode> code = drive(why_left);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
    sent = true;
    if (!code) return tl::unexpected(why_left.empty() ? unreachable("the request was cancelled", true) : unreachable(why_left));
    if (*code != CURLE_OK && !exchange.stopped_by_reader) {
      sent = *code != CURLE_COULDNT_CONNECT && *code != CURLE_COULDNT_RESOLVE_HOST;
      if (*code == CURLE_OPERATION_TIMEDOUT) servers->note_silence(base_url);
      return tl::unexpected(unreachable(
          exchange.refusal.empty() ? cause_of(*code, easy, error_text, connect_timeout(timeout), timeout) : exchange.refusal));
    }
    silences[base_url] = servers->silences(base_url);
    if (exchange.term > 0 && !servers->note_term(exchange.term))
      return tl::unexpected(unreachable(fmt::format("it led in term {}, which is over", exchange.term)));
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    exchange.reply.status = static_cast<int>(status);
    exchange.reply.as_of = exchange.as_of;
    exchange.reply.leader = exchange.leader;
    if (status < 300) return std::move(exchange.reply);
    HttpFailure failure;
    failure.base_url = base_url;
    failure.problem = status < 400 ? redirection(base_url, exchange.reply) : problem_of(exchange.reply);
    sent = !exchange.nothing_done && failure.problem.code != kNotLeader;
    return tl::unexpected(std::move(failure));
  }

  // Of several servers the one that leads is looked for while that can do no harm: a request that may have been carried out is
  // not sent again, unless it asks for something and changes nothing. An answer of one that stands by may be a little old: it
  // is good enough once the leader was looked for in vain.
  tl::expected<HttpReply, HttpFailure> run(Exchange& exchange, std::string_view method, const std::string& path,
                                           std::string_view body, std::string_view content_type, const std::string& accept,
                                           milliseconds timeout) {
    const Exchange fresh = exchange;
    const bool bounded = timeout > milliseconds(0);  // a stream is not
    const milliseconds patience = bounded ? std::min(timeout, kLeaderPatience) : kLeaderPatience;
    const auto began = std::chrono::steady_clock::now();
    std::optional<tl::expected<HttpReply, HttpFailure>> second_best;
    for (size_t asked = 1;; ++asked) {
      choose_server();
      bool sent = false;
      auto reply = ask_once(exchange, method, path, body, content_type, accept, timeout, sent);
      const bool of_standby = !exchange.as_of.empty();
      if (servers->size() == 1 || (!reply && reply.error().cancelled)) return reply;
      if (!of_standby && (reply || (!reply.error().unreachable && reply.error().problem.status != 503))) return reply;
      servers->leave(base_url, exchange.leader);
      const bool harmless = !sent || ((method == "GET" || method == "HEAD") && !exchange.on_bytes);
      if (of_standby) second_best = std::move(reply);
      const auto waited = std::chrono::steady_clock::now() - began;
      if (second_best && waited > kStandbyPatience) return *std::move(second_best);
      if (!harmless || waited > patience) return reply;
      exchange = fresh;
      if (asked % servers->size() == 0 && waits_cancelled())
        return tl::unexpected(unreachable("the request was cancelled", true));
    }
  }

  // A pause while nobody leads. True: the request is cancelled.
  bool waits_cancelled() {
    curl_multi_poll(multi, nullptr, 0, static_cast<int>(kLeaderPause.count()), nullptr);
    return cancelled.exchange(false) || (stop != nullptr && *stop);
  }
};

HttpClient::HttpClient(const std::string& servers, std::string token)
    : impl_(std::make_unique<Impl>(servers, std::move(token))) {}
HttpClient::~HttpClient() = default;

const std::string& HttpClient::base_url() const {
  return impl_->base_url;
}

void HttpClient::trust_only(const std::string& pin) {
  impl_->pin = pin;
}

void HttpClient::ignore_bodies(size_t bytes_max) {
  impl_->ignored_max = bytes_max;
}

void HttpClient::set_header(const std::string& name, const std::string& value) {
  impl_->headers[one_line(name)] = one_line(value);
}

tl::expected<HttpReply, HttpFailure> HttpClient::request(std::string_view method, const std::string& path,
                                                         std::string_view body, std::string_view content_type,
                                                         milliseconds timeout) {
  Exchange exchange;
  exchange.ignored_max = impl_->ignored_max;
  return impl_->run(exchange, method, path, body, content_type, "", timeout);
}

tl::expected<void, HttpFailure> HttpClient::stream(
    const std::string& path, const std::string& last_event_id,
    const std::function<bool(const std::string&, const std::string&, const std::string&)>& on_event) {
  EventStreamParser parser;
  Exchange exchange;
  exchange.on_bytes = [&](std::string_view bytes) {
    const auto state = parser.feed(bytes, on_event);
    if (state == EventStreamParser::State::kTooLong) exchange.refusal = "an event is longer than 4 MiB";
    return state == EventStreamParser::State::kGoing;
  };
  if (!last_event_id.empty()) impl_->headers["Last-Event-ID"] = one_line(last_event_id);
  auto reply = impl_->run(exchange, "GET", path, {}, {}, "text/event-stream", milliseconds(0));
  impl_->headers.erase("Last-Event-ID");
  if (!reply) return tl::unexpected(std::move(reply.error()));
  if (!exchange.refusal.empty()) return tl::unexpected(impl_->unreachable(exchange.refusal));
  return {};
}

void HttpClient::set_stop(const std::atomic<bool>* stop) {
  impl_->stop = stop;
}

void HttpClient::cancel() {
  impl_->cancelled = true;
  curl_multi_wakeup(impl_->multi);
}

}  // namespace holdfast::rendezvous
