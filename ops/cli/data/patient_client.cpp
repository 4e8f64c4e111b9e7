#include "ops/cli/data/patient_client.h"

#include <thread>

#include "rendezvous/client/retry.h"

namespace holdfast::ops {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstRetryPause{200}, kLongestRetryPause{5000}, kPiece{100};
constexpr std::chrono::minutes kOneRequest{2};

bool may_pass(const rendezvous::HttpFailure& failure) {
  return !failure.cancelled && failure.problem.status != 507 && rendezvous::is_worth_repeating(failure);
}

}  // namespace

PatientClient::PatientClient(const Options& options, const std::atomic<bool>& stop)
    : client_(server_of(options), token_of(options)), stop_(stop) {
  client_.set_stop(&stop);
}

std::string PatientClient::request(const std::string& method, const std::string& path, const std::string& body,
                                   const std::string& content_type) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  rendezvous::BackOff back_off(kFirstRetryPause, kLongestRetryPause);
  for (;;) {
    auto reply = client_.request(method, path, body, content_type, kOneRequest);
    if (reply) return std::move(reply->body);
    if (!may_pass(reply.error()) || stop_ || Clock::now() >= deadline)
      throw RefusedPush{reply.error().problem.code, failure_of(reply.error())};
    for (const auto until = Clock::now() + back_off.next(); Clock::now() < until && !stop_;)
      std::this_thread::sleep_for(kPiece);
  }
}

Json PatientClient::ask(const std::string& method, const std::string& path, const Json& body) {
  return Json::parse(request(method, path, rendezvous::json_text(body)));
}

}  // namespace holdfast::ops
