#include "storage/s3/requests.h"

#include <curl/curl.h>
#include <fmt/chrono.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <random>
#include <thread>

#include "storage/failure.h"
#include "storage/s3/answers.h"

namespace holdfast::storage {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kPauseMax{10'000}, kPauseOfBusy{500};
constexpr milliseconds kPiece{100};           // a pause looks at `stop` this often
constexpr int64_t kSlowestBytesPerMs = 1000;  // 1 MB/s: at this speed a put's bytes lengthen its deadline
constexpr milliseconds kTryMax{60'000};       // of one try; a body's bytes lengthen it, too
constexpr milliseconds kBrief{5'000};         // silence within less says little of the server: the try before it is told of

// As the signature wants it: all but unreserved characters, in upper-case hex.
std::string escaped(std::string_view text, bool keep_slashes) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 0x80 && std::isalnum(byte) != 0) || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain || (c == '/' && keep_slashes)) {
      safe += c;
    } else {
      safe += fmt::format("%{:02X}", byte);
    }
  }
  return safe;
}

// A growing pause, random between its half and its whole.
milliseconds jittered(milliseconds pause) {
  static thread_local std::minstd_rand random{std::random_device{}()};
  return milliseconds(std::uniform_int_distribution<milliseconds::rep>(pause.count() / 2, pause.count())(random));
}

// Seconds, or a date.
milliseconds retry_after(const S3Answer& answer) {
  const std::string text = answer.header("retry-after");
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (!text.empty() && error == std::errc() && end == text.data() + text.size())
    return std::chrono::seconds(std::clamp<int64_t>(seconds, 0, 3600));
  const std::time_t then = text.empty() ? -1 : curl_getdate(text.c_str(), nullptr);
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return then < 0 ? milliseconds(0) : std::chrono::seconds(std::clamp<int64_t>(then - now, 0, 3600));
}

bool is_busy(int status) {
  return status == 503 || status == 429;
}
bool is_full(int status, const std::string& code) {
  return status == 507 || code == "QuotaExceeded" || code == "XMinioStorageFull" || code == "InsufficientStorage";
}
bool may_pass(int status, const std::string& code) {
  if (is_full(status, code)) return false;
  return status >= 500 || status == 408 || status == 429 || code == "RequestTimeout" || code == "OperationAborted" ||
         code == "BadDigest" || code == "XAmzContentSHA256Mismatch" || code == "SlowDown" || code == "IncompleteBody";
}
// The credentials may have been replaced since they were read.
bool may_be_old(const std::string& code) {
  return code == "ExpiredToken" || code == "TokenRefreshRequired" || code == "InvalidAccessKeyId" || code == "InvalidToken";
}

std::string utc_text(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

std::string skew_text(const S3Problem& problem, const S3Answer& answer) {
  const std::string date = answer.header("date");
  const std::time_t theirs = date.empty() ? -1 : curl_getdate(date.c_str(), nullptr);
  const std::string server = theirs >= 0                    ? utc_text(std::chrono::system_clock::from_time_t(theirs))
                             : !problem.server_time.empty() ? problem.server_time
                                                            : "another time";
  return fmt::format(
      "this machine's clock says {}, the server's {}: they may differ by 15 minutes. Set this machine's clock (timedatectl, "
      "chrony)",
      utc_text(std::chrono::system_clock::now()), server);
}

}  // namespace

S3Bucket::S3Bucket(const S3Place& place, const S3Options& options)
    : options_(options), prefix_(place.prefix.empty() ? "" : place.prefix + "/"), region_(place.region) {
  if (region_.empty()) region_ = configured_region();
  if (region_.empty()) region_ = "us-east-1";
  std::string endpoint = place.endpoint.empty() ? configured_endpoint() : place.endpoint;
  // Amazon's certificates are for one name before the host's, so a bucket with a dot in it stands behind the host.
  const bool amazon = endpoint.empty();
  const bool host_style = amazon ? place.bucket.find('.') == std::string::npos : place.host_style;
  if (amazon) endpoint = fmt::format("https://s3.{}.amazonaws.com", region_);
  base_ = endpoint + "/" + place.bucket;
  if (const size_t host = endpoint.find("://") + 3; host_style)
    base_ = fmt::format("{}{}.{}", endpoint.substr(0, host), place.bucket, endpoint.substr(host));
  described_ = fmt::format("s3://{}{}{} at {}", place.bucket, place.prefix.empty() ? "" : "/", place.prefix, endpoint);
}

std::string S3Bucket::url_of(const Call& call) const {
  std::string url = base_ + (call.key.empty() ? "" : "/" + escaped(call.key, true));
  if (call.key.empty() && base_.find('/', base_.find("://") + 3) == std::string::npos) url += "/";
  char before = '?';
  for (const auto& [name, value] : call.query)
    url += fmt::format("{}{}={}", std::exchange(before, '&'), escaped(name, false), escaped(value, false));
  return url;
}

// A connection: one for each call under way, kept for later calls.
class S3Bucket::Lease {
 public:
  explicit Lease(S3Bucket& bucket) : bucket_(bucket) {
    const std::scoped_lock lock(bucket.mutex_);
    if (bucket.idle_.empty()) {
      connection_ = std::make_unique<S3Connection>();
    } else {
      connection_ = std::move(bucket.idle_.back());
      bucket.idle_.pop_back();
    }
  }
  ~Lease() {
    const std::scoped_lock lock(bucket_.mutex_);
    bucket_.idle_.push_back(std::move(connection_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  S3Connection& operator*() const { return *connection_; }

 private:
  S3Bucket& bucket_;
  std::unique_ptr<S3Connection> connection_;
};

S3Failure S3Bucket::failure_of(const Call& call, const S3Answer& answer) const {
  const S3Problem problem = parse_s3_problem(answer.text());
  const std::string& code = problem.code;
  const bool passes = may_pass(answer.status, code);
  const std::string said = code.empty() ? "" : " " + code + (problem.message.empty() ? "" : ": " + problem.message);
  const auto failure = [&](Error::Code kind, const std::string& remedy) {
    const std::string text = fmt::format("{} in {}: the server answers {}{}{}{}", call.what, described_, answer.status, said,
                                         remedy.empty() ? "" : ": ", remedy);
    return S3Failure{{kind, text}, answer.status, code, passes};
  };
  using enum Error::Code;
  if (is_full(answer.status, code))
    return failure(kNoSpace, "free space there, keep fewer checkpoints (keep_last), or raise the quota");
  if (code == "RequestTimeTooSkewed") return failure(kUnavailable, skew_text(problem, answer));
  if (code == "NoSuchBucket") return failure(kNotFound, "make the bucket, or name another");
  if (answer.status == 404) return failure(kNotFound, "there is no such object");
  const std::string region = problem.region.empty() ? answer.header("x-amz-bucket-region") : problem.region;
  if (!region.empty() && region != region_) {
    return failure(kUnavailable, fmt::format("the bucket is in region {}, and {} was asked for: write region={} into the place",
                                             region, region_, region));
  }
  if (answer.status >= 300 && answer.status < 400) return failure(kUnavailable, "name the endpoint that the bucket is at");
  if (answer.status == 401 || answer.status == 403) {
    return failure(kUnavailable,
                   "the credentials that this program uses there may not do this: look at AWS_ACCESS_KEY_ID and "
                   "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and at the bucket's policy (it takes s3:GetObject, PutObject, "
                   "DeleteObject and ListBucket)");
  }
  return failure(passes ? kUnavailable : kRefused, "");
}

// `not_before`: the pause that the server asks for.
tl::expected<S3Answer, S3Failure> S3Bucket::try_once(S3Connection& connection, const S3Request& request, const Call& call,
                                                     const std::atomic<bool>* stop, milliseconds& not_before) {
  const auto credentials = credentials_.get();
  if (!credentials) {
    const auto text = fmt::format("{} in {}: {}", call.what, described_, credentials.error().message);
    return tl::unexpected(S3Failure{.error = {credentials.error().code, text}});
  }
  auto answer = connection.send(request, &*credentials, region_, stop);
  if (!answer) {
    const S3Silence& silence = answer.error();
    const auto text = fmt::format("{} in {}: {}", call.what, described_, silence.cause);
    return tl::unexpected(S3Failure{.error = {Error::Code::kUnavailable, text},
                                    .may_pass = !silence.stopped && !silence.for_good,
                                    .timed_out = silence.timed_out});
  }
  if (answer->status < 300) return std::move(*answer);
  not_before = retry_after(*answer);
  if (is_busy(answer->status)) not_before = std::max(not_before, kPauseOfBusy);
  return tl::unexpected(failure_of(call, *answer));
}

tl::expected<S3Answer, S3Failure> S3Bucket::call(const Call& call, int tries) {
  const bool reads = call.method == "GET" || call.method == "HEAD";
  const std::atomic<bool>* const stop = reads ? options_.stop : nullptr;
  const auto stopped = [stop] { return stop != nullptr && *stop; };
  const milliseconds of_body(static_cast<int64_t>(call.body.size()) / kSlowestBytesPerMs);
  const Clock::time_point deadline = Clock::now() + options_.deadline + of_body;
  S3Request request{
      .method = call.method, .url = url_of(call), .body = call.body, .headers = call.headers, .bytes_max = call.bytes_max};
  const Lease connection(*this);
  milliseconds bound = options_.first_pause;
  bool asked_with_new = false;        // credentials
  std::optional<std::string> before;  // the message of the try before
  for (int attempt = 1;; ++attempt) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    request.timeout = std::clamp(left, milliseconds(1), kTryMax + of_body);
    milliseconds not_before{0};
    auto outcome = try_once(*connection, request, call, stop, not_before);
    if (outcome) return outcome;
    S3Failure& failure = outcome.error();
    if (before && left < kBrief && failure.timed_out) failure.error.message = *before;
    before = failure.error.message;
    const milliseconds pause = not_before + jittered(bound);
    bound = std::min(kPauseMax, bound * 2);
    const bool with_new = may_be_old(failure.code) && !std::exchange(asked_with_new, true);
    if (with_new) credentials_.forget();
    const bool too_late = Clock::now() + pause >= deadline;
    if ((!failure.may_pass && !with_new) || stopped() || attempt == tries || too_late) {
      if (attempt > 1) failure.error.message += fmt::format(" (tried {} times)", attempt);
      if (too_late && not_before > kPauseOfBusy)
        failure.error.message += fmt::format(" (it asks not to be asked again for {} s)", not_before.count() / 1000);
      return outcome;
    }
    for (const auto until = Clock::now() + pause; Clock::now() < until && !stopped();)
      std::this_thread::sleep_for(std::min<Clock::duration>(until - Clock::now(), kPiece));
  }
}

}  // namespace holdfast::storage
