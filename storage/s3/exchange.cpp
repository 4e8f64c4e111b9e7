// An easy handle for each connection, driven by a multi handle so that a request can be stopped.
#include "storage/s3/exchange.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>

namespace holdfast::storage {
namespace {

using std::chrono::milliseconds;

constexpr long kConnectTimeoutMs = 5000, kExpectMs = 250;
constexpr long kStalledBytesPerS = 1024, kStalledS = 20;  // slower than this for so long is no transfer any more
constexpr long kBufferBytes = 512 << 10;                  // of libcurl, each way: its own 16 and 64 KiB cost a fast link much
constexpr size_t kHeaderBytesMax = 64 << 10, kErrorBytesMax = 64 << 10;
constexpr size_t kReserveMax = 64 << 20;  // for an announced length: it is not believed beyond this
constexpr int kPatienceMs = 200;

std::string sha256_hex(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

// The authorities that sign servers' certificates: the first of the variables that programs for S3, curl and OpenSSL know.
std::string authorities() {
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (const char* file = std::getenv(name); file != nullptr && *file != '\0') return file;
  }
  return "";
}

bool is_loopback(std::string_view url) {
  const size_t at = url.find("://");
  const std::string_view host = at == url.npos ? url : url.substr(at + 3);
  return host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
}

struct Transfer {
  CURL* easy = nullptr;
  S3Answer answer;
  size_t bytes_max = 0, header_bytes = 0;
  std::string refusal;  // why this side ended it
};

size_t take_header(char* data, size_t, size_t size, void* pointer) {
  auto& transfer = *static_cast<Transfer*>(pointer);
  transfer.header_bytes += size;
  if (transfer.header_bytes > kHeaderBytesMax) {
    transfer.refusal = "the answer's headers are longer than 64 KiB";
    return 0;
  }
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) transfer.answer.headers.clear();  // of a 100 Continue before it
  const size_t colon = line.find(':');
  if (colon == line.npos) return size;
  std::string name(line.substr(0, colon)), value(line.substr(colon + 1));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  value.erase(0, value.find_first_not_of(" \t"));
  value.erase(value.find_last_not_of(" \t\r\n") + 1);
  transfer.answer.headers[name] = value;
  return size;
}

size_t take_body(char* data, size_t, size_t size, void* pointer) {
  auto& transfer = *static_cast<Transfer*>(pointer);
  Bytes& body = transfer.answer.body;
  long status = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
  const size_t most = status >= 300 ? kErrorBytesMax : transfer.bytes_max;
  if (body.size() + size > most) {
    transfer.refusal = fmt::format("the answer is longer than {} bytes", most);
    return 0;
  }
  if (body.empty()) {
    curl_off_t announced = 0;
    curl_easy_getinfo(transfer.easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    if (announced > 0) body.reserve(std::min(static_cast<size_t>(announced), kReserveMax));
  }
  const auto bytes = std::as_bytes(std::span(data, size));
  body.insert(body.end(), bytes.begin(), bytes.end());
  return size;
}

S3Silence silence_of(CURLcode code, const char* error_text, milliseconds timeout) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return {.cause = "no such host"};
    case CURLE_OPERATION_TIMEDOUT:
      return {.cause = fmt::format("no answer within {:g} s, or fewer than {} bytes a second for {} s ({})",
                                   static_cast<double>(timeout.count()) / 1000, kStalledBytesPerS, kStalledS, error_text),
              .timed_out = true};
    case CURLE_PARTIAL_FILE:
      return {.cause = "the answer was cut short"};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return {.cause = fmt::format("its certificate was not accepted ({}): name the file of who signed it in AWS_CA_BUNDLE",
                                   error_text),
              .for_good = true};
    case CURLE_SSL_CONNECT_ERROR:
      return {.cause = fmt::format("no TLS connection ({}): does it serve plain http?", error_text)};
    default:
      return {.cause = error_text[0] != '\0' ? error_text : curl_easy_strerror(code)};
  }
}

using Lines = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

Lines header_lines(const S3Request& request, const Credentials* credentials) {
  curl_slist* list = nullptr;
  const auto add = [&](const std::string& line) { list = curl_slist_append(list, line.c_str()); };
  if (request.method == "PUT") add("Content-Type: application/octet-stream");
  for (const std::string& line : request.headers) add(line);
  if (credentials != nullptr) {
    const bool tls = request.url.starts_with("https://");
    // Without this header libcurl signs a body that it does not tell of, and servers refuse the request.
    add("x-amz-content-sha256: " + (tls ? std::string("UNSIGNED-PAYLOAD") : sha256_hex(request.body)));
    if (!credentials->token.empty()) add("x-amz-security-token: " + credentials->token);
  }
  return {list, &curl_slist_free_all};
}

}  // namespace

struct S3Connection::Impl {
  CURLM* multi = nullptr;
  CURL* easy = nullptr;

  Impl() {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_ALL); });
    multi = curl_multi_init();
    easy = curl_easy_init();
    if (multi == nullptr || easy == nullptr) throw std::bad_alloc();
  }
  Impl(const Impl&) = delete;
  ~Impl() {
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
  }

  void prepare(const S3Request& request, const Credentials* credentials, const std::string& region, Transfer& transfer,
               curl_slist* lines, char* error_text) const {
    curl_easy_reset(easy);  // keeps the connection
    const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(easy, option, value); };
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_ERRORBUFFER, error_text);
    set(CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
    set(CURLOPT_LOW_SPEED_LIMIT, kStalledBytesPerS);
    set(CURLOPT_LOW_SPEED_TIME, kStalledS);
    set(CURLOPT_BUFFERSIZE, kBufferBytes);
    set(CURLOPT_UPLOAD_BUFFERSIZE, kBufferBytes);
    // A large body waits so long for the server's word that it wants it. To leave the question out ("Expect:") is no way:
    // libcurl 7.88 signs the header that it does not send, and strict servers refuse that.
    set(CURLOPT_EXPECT_100_TIMEOUT_MS, kExpectMs);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_USERAGENT, "holdfast");
    if (is_loopback(request.url) || credentials == nullptr) set(CURLOPT_NOPROXY, "*");  // a machine's own metadata
    if (const std::string file = authorities(); !file.empty()) set(CURLOPT_CAINFO, file.c_str());
    set(CURLOPT_HTTPHEADER, lines);
    set(CURLOPT_HEADERFUNCTION, &take_header);
    set(CURLOPT_HEADERDATA, &transfer);
    set(CURLOPT_WRITEFUNCTION, &take_body);
    set(CURLOPT_WRITEDATA, &transfer);
    if (credentials != nullptr) {
      set(CURLOPT_AWS_SIGV4, fmt::format("aws:amz:{}:s3", region).c_str());
      set(CURLOPT_USERNAME, credentials->key.c_str());
      set(CURLOPT_PASSWORD, credentials->secret.c_str());
    }
    if (request.method == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT") {
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      set(CURLOPT_POSTFIELDS, request.body.empty() ? "" : reinterpret_cast<const char*>(request.body.data()));
      set(CURLOPT_CUSTOMREQUEST, "PUT");
    } else if (request.method != "GET") {
      set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
  }

  // Runs the easy handle to its end; nothing when it was stopped.
  std::optional<CURLcode> drive(const std::atomic<bool>* stop) const {
    curl_multi_add_handle(multi, easy);
    std::optional<CURLcode> code;
    for (int running = 1; !code && (stop == nullptr || !*stop);) {
      curl_multi_perform(multi, &running);
      int left = 0;
      while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
        if (message->msg == CURLMSG_DONE) code = message->data.result;
      }
      if (!code) curl_multi_poll(multi, nullptr, 0, kPatienceMs, nullptr);
    }
    curl_multi_remove_handle(multi, easy);
    return code;
  }
};

S3Connection::S3Connection() : impl_(std::make_unique<Impl>()) {}
S3Connection::~S3Connection() = default;

tl::expected<S3Answer, S3Silence> S3Connection::send(const S3Request& request, const Credentials* credentials,
                                                     const std::string& region, const std::atomic<bool>* stop) {
  Transfer transfer;
  transfer.easy = impl_->easy;
  transfer.bytes_max = request.bytes_max;
  char error_text[CURL_ERROR_SIZE] = "";
  const Lines lines = header_lines(request, credentials);
  impl_->prepare(request, credentials, region, transfer, lines.get(), error_text);
  const std::optional<CURLcode> code = impl_->drive(stop);
  curl_easy_setopt(impl_->easy, CURLOPT_ERRORBUFFER, nullptr);
  if (!code) return tl::unexpected(S3Silence{.cause = "it was stopped", .stopped = true});
  long status = 0;
  curl_easy_getinfo(impl_->easy, CURLINFO_RESPONSE_CODE, &status);
  // A server may answer with an error and close before it has read a body: the answer says more than the broken connection.
  const bool told = status >= 400 && (*code == CURLE_SEND_ERROR || *code == CURLE_RECV_ERROR || *code == CURLE_PARTIAL_FILE);
  if (!transfer.refusal.empty() && status < 300) return tl::unexpected(S3Silence{.cause = transfer.refusal, .for_good = true});
  if (*code != CURLE_OK && !told && transfer.refusal.empty())
    return tl::unexpected(silence_of(*code, error_text, request.timeout));
  // Without a length the end of the connection would be the end of the answer, and one that is cut in its head looks whole.
  const bool has_end =
      transfer.answer.headers.contains("content-length") || transfer.answer.headers.contains("transfer-encoding");
  if (status == 200 && !has_end && request.method != "HEAD")
    return tl::unexpected(S3Silence{.cause = "the answer was cut short"});
  transfer.answer.status = static_cast<int>(status);
  return std::move(transfer.answer);
}

}  // namespace holdfast::storage
