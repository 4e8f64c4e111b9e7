// The service's address and token, from the environment, then files, then defaults; and the message where the service is not
// reached or refuses.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "rendezvous/client/http_client.h"

namespace holdfast::rendezvous {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read before threads, never set by us
  return value == nullptr ? "" : value;
}

const char* remedy(int status) {
  switch (status) {
    case 401:
      return "Set HOLDFAST_TOKEN or give --token: the token is in admin.token (worker.token for workers) in the data directory "
             "of the service.";
    case 403:
      return "The token in admin.token in the data directory of the service may do everything; `holdfast whoami` says what "
             "this one is.";
    default:
      return "";
  }
}

}  // namespace

std::string HttpFailure::message() const {
  if (cancelled) return fmt::format("the request to {} was cancelled", base_url);
  if (unreachable) {
    return fmt::format(
        "cannot reach the service at {}: {}. Is `holdfast serve` running there? Set --server or HOLDFAST_SERVER.", base_url,
        cause);
  }
  std::string text = problem.detail.empty() ? problem.title : problem.detail;
  if (text.empty()) text = fmt::format("{} answered with status {}", base_url, problem.status);
  for (const FieldError& error : problem.errors) {
    const std::string line = fmt::format("{}: {}", error.field, error.message);
    if (line != problem.detail) text += "\n  " + line;
  }
  if (*remedy(problem.status) != '\0') text += fmt::format("\n{}", remedy(problem.status));
  return text;
}

std::string certificate_authority() {
  return environment("HOLDFAST_CACERT");
}

void set_certificate_authority(const std::string& file) {
  setenv("HOLDFAST_CACERT", file.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): training processes inherit it
}

std::string default_server() {
  const std::string server = environment("HOLDFAST_SERVER");
  return server.empty() ? "http://127.0.0.1:7070" : server;
}

std::string default_data_directory() {
  if (const std::string own = environment("HOLDFAST_DATA_DIR"); !own.empty()) return own;
  if (const std::string data = environment("XDG_DATA_HOME"); !data.empty()) return data + "/holdfast";
  const std::string home = environment("HOME");
  return (home.empty() ? "." : home) + "/.local/share/holdfast";
}

std::string find_token(const std::string& file) {
  if (const std::string token = environment("HOLDFAST_TOKEN"); !token.empty()) return token;
  std::ifstream in(default_data_directory() + "/" + file);
  std::string token;
  in >> token;  // one word
  return token;
}

}  // namespace holdfast::rendezvous
