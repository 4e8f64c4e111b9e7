// The access key with which objects are asked for, found where programs for S3 look for one.
//
//   1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   2. the profile AWS_PROFILE ("default") of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials), then of AWS_CONFIG_FILE
//      (~/.aws/config)
//   3. the role of this machine, from its metadata service (IMDSv2), unless AWS_EC2_METADATA_DISABLED is "true"
// The region comes from AWS_REGION, AWS_DEFAULT_REGION or the profile.
//
// Promises: keys are in no message; credentials that expire are fetched again before they do. Thread: any.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "storage/object_store.h"

namespace holdfast::storage {

struct Credentials {
  std::string key, secret, token;  // token: "" for those that last
  std::string source;              // for people: "the environment", "profile x of /root/.aws/credentials"
  std::optional<std::chrono::system_clock::time_point> expires{};
};

class CredentialSource {
 public:
  // kRefused: there are none, with where they were looked for; kUnavailable: there were some, and now there are none.
  Result<Credentials> get();
  // The next get() looks again: a server says that these have expired, or does not know them.
  void forget();

 private:
  std::mutex mutex_;
  std::optional<Credentials> found_;
  bool had_some_ = false;
};

// "": nobody says.
std::string configured_region();
// AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL; "": Amazon's.
std::string configured_endpoint();

// The value of `field` in a section of an INI file, as ~/.aws/config is; nothing where it is not there.
std::optional<std::string> ini_value(const std::string& text, const std::string& section, const std::string& field);

}  // namespace holdfast::storage
