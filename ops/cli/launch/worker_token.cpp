#include "ops/cli/launch/worker_token.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

namespace holdfast::ops {
namespace {

constexpr int64_t kExpiresInS = 90 * 24 * 3600;  // longer than jobs run

std::string of_environment() {
  const char* token = std::getenv("HOLDFAST_WORKER_TOKEN");  // NOLINT(concurrency-mt-unsafe): before there are threads
  return token == nullptr ? "" : token;
}

std::string of_folder() {
  std::ifstream file(rendezvous::default_data_directory() + "/worker.token");
  std::string token;
  file >> token;
  return token;
}

}  // namespace

WorkerToken worker_token(const Options& options, Api& api, const std::string& name) {
  if (const std::string given = of_environment(); !given.empty()) return {given, ""};
  try {
    const Json made = api.post("/v1/tokens", {{"name", name}, {"role", "worker"}, {"expires_in_s", kExpiresInS}});
    return {text_at(made, "token"), text_at(made, "id")};
  } catch (const Failure& failure) {
    if (failure.exit_code != kNotAllowed) throw;
  }
  if (const std::string found = of_folder(); !found.empty()) return {found, ""};
  throw Failure{kNotAllowed,
                fmt::format("the workers need a token of role worker for {}, and yours may not make one: have an admin make "
                            "it (holdfast tokens create launch --role worker) and give it as HOLDFAST_WORKER_TOKEN",
                            server_of(options))};
}

void revoke(const Options& options, const WorkerToken& token) {
  if (token.id.empty()) return;
  try {
    Api api(options);
    api.remove("/v1/tokens/" + token.id);
  } catch (const Failure&) {
    // it expires
  }
}

}  // namespace holdfast::ops
