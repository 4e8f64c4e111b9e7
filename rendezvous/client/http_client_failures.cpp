#include "rendezvous/client/http_client_failures.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "rendezvous/text/errno_text.h"

namespace holdfast::rendezvous {

using std::chrono::milliseconds;

Problem problem_of(const HttpReply& reply) {
  Problem problem;
  const nlohmann::json json = parse_json(reply.body).json;
  try {
    if (json.is_object()) problem = json.get<Problem>();
  } catch (const std::invalid_argument&) {
    problem = Problem{};  // an error in another format, such as a proxy's: the status says enough
  }
  if (problem.title.empty() && problem.detail.empty() && !json.is_object()) problem.detail = reply.body.substr(0, 200);
  problem.status = reply.status;
  return problem;
}

Problem redirection(const std::string& base_url, const HttpReply& reply) {
  const std::string to = reply.location.empty() ? "no address" : reply.location.substr(0, 300);
  Problem problem;
  problem.status = reply.status;
  problem.detail = fmt::format(
      "{} is not the service itself: it answered {} and leads to {}. Give the service's own address (--server or "
      "HOLDFAST_SERVER)",
      base_url, reply.status, to);
  return problem;
}

std::string cause_of(CURLcode code, CURL* easy, const char* error_text, milliseconds connect_timeout, milliseconds timeout) {
  long os_error = 0;
  curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_error);
  double connected_s = 0;
  curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME, &connected_s);
  switch (code) {
    case CURLE_COULDNT_CONNECT:
      return os_error != 0 ? describe_errno(static_cast<int>(os_error)) : "cannot connect";
    case CURLE_COULDNT_RESOLVE_HOST:
      return "no such host";
    case CURLE_OPERATION_TIMEDOUT:
      if (connected_s == 0)
        return fmt::format("no connection within {:g} s", static_cast<double>(connect_timeout.count()) / 1000);
      return fmt::format("no answer within {:g} s", timeout.count() / 1000.0);
    case CURLE_GOT_NOTHING:
      return "the connection was closed before an answer came";
    case CURLE_PEER_FAILED_VERIFICATION:
      return fmt::format(
          "its certificate was not accepted ({}): name the file of who signed it with --cacert or HOLDFAST_CACERT", error_text);
    case CURLE_SSL_CACERT_BADFILE:
      return fmt::format("{}: expected a certificate in PEM (--cacert, HOLDFAST_CACERT)", error_text);
    case CURLE_SSL_CONNECT_ERROR:
      return fmt::format("no TLS connection ({}): does it serve plain http?", error_text);
    default:
      return error_text[0] != '\0' ? error_text : curl_easy_strerror(code);
  }
}

}  // namespace holdfast::rendezvous
