#include "storage/s3/credentials.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "storage/failure.h"
#include "storage/s3/exchange.h"

namespace holdfast::storage {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr milliseconds kMetadataTimeout{2000};
constexpr std::chrono::minutes kBeforeExpiry{5};
constexpr size_t kMetadataBytesMax = 64 << 10;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string trimmed(std::string text) {
  text.erase(0, text.find_first_not_of(" \t\r"));
  text.erase(text.find_last_not_of(" \t\r") + 1);
  return text;
}

std::string file_of(const char* variable, const char* usual) {
  const std::string named = environment(variable);
  return named.empty() ? environment("HOME") + "/.aws/" + usual : named;
}

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string profile() {
  const std::string named = environment("AWS_PROFILE");
  return named.empty() ? "default" : named;
}

// In the file for all settings other profiles than the default one have a word before them.
std::string section_of_config() {
  const std::string name = profile();
  return name == "default" ? name : "profile " + name;
}

std::optional<Credentials> of_environment() {
  Credentials found{environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"), environment("AWS_SESSION_TOKEN"),
                    "the environment"};
  if (found.key.empty() || found.secret.empty()) return std::nullopt;
  return found;
}

std::optional<Credentials> of_file(const std::string& file, const std::string& section) {
  const std::string text = text_of(file);
  const auto key = ini_value(text, section, "aws_access_key_id"), secret = ini_value(text, section, "aws_secret_access_key");
  if (!key || !secret || key->empty() || secret->empty()) return std::nullopt;
  return Credentials{*key, *secret, ini_value(text, section, "aws_session_token").value_or(""),
                     fmt::format("profile {} of {}", profile(), file)};
}

// "2026-11-26T10:00:00Z"
std::optional<system_clock::time_point> time_of(const std::string& text) {
  std::tm utc{};
  if (strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc) == nullptr) return std::nullopt;
  return system_clock::from_time_t(timegm(&utc));
}

class Metadata {
 public:
  Result<Credentials> role() {
    auto token = ask("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds: 300"});
    if (!token) return tl::unexpected(token.error());
    const std::vector<std::string> with_token{"X-aws-ec2-metadata-token: " + *token};
    const std::string roles = "/latest/meta-data/iam/security-credentials/";
    auto names = ask("GET", roles, with_token);
    if (!names) return tl::unexpected(names.error());
    const std::string name = trimmed(names->substr(0, names->find('\n')));
    auto said = ask("GET", roles + name, with_token);
    if (!said) return tl::unexpected(said.error());
    const auto json = nlohmann::json::parse(*said, nullptr, false);
    const auto text = [&](const char* field) {
      return json.is_object() && json.contains(field) && json[field].is_string() ? json[field].get<std::string>() : "";
    };
    Credentials found{text("AccessKeyId"), text("SecretAccessKey"), text("Token"), "the machine's role " + name};
    found.expires = time_of(text("Expiration"));
    if (found.key.empty() || found.secret.empty())
      return fail(Error::Code::kUnavailable, "{} says nothing of a key for the role {}", base_, name);
    return found;
  }

 private:
  Result<std::string> ask(const std::string& method, const std::string& path, std::vector<std::string> headers) {
    S3Request request{method, base_ + path, {}, std::move(headers), kMetadataTimeout, kMetadataBytesMax};
    auto answer = connection_.send(request, nullptr, "", nullptr);
    if (!answer) return fail(Error::Code::kUnavailable, "{}: {}", base_, answer.error().cause);
    if (answer->status != 200) return fail(Error::Code::kUnavailable, "{}{} answers {}", base_, path, answer->status);
    return answer->text();
  }
  static std::string base() {
    std::string named = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    while (named.ends_with('/')) named.pop_back();
    return named.empty() ? "http://169.254.169.254" : named;
  }
  const std::string base_ = base();
  S3Connection connection_;
};

// A machine that is no cloud's has nobody to answer: not everybody who opens a store waits for that again.
Result<Credentials> role_of_machine() {
  static std::mutex mutex;
  static std::string last_problem;  // "": there was none
  static std::chrono::steady_clock::time_point last_asked;
  constexpr std::chrono::minutes kRemembered{1};
  const std::scoped_lock lock(mutex);
  const auto now = std::chrono::steady_clock::now();
  if (!last_problem.empty() && now - last_asked < kRemembered) return fail(Error::Code::kUnavailable, "{}", last_problem);
  auto role = Metadata().role();
  last_asked = now;
  last_problem = role ? "" : role.error().message;
  return role;
}

Result<Credentials> find() {
  if (auto found = of_environment()) return *found;
  const std::string credentials = file_of("AWS_SHARED_CREDENTIALS_FILE", "credentials");
  const std::string config = file_of("AWS_CONFIG_FILE", "config");
  if (auto found = of_file(credentials, profile())) return *found;
  if (auto found = of_file(config, section_of_config())) return *found;
  std::string of_machine = "not asked, for AWS_EC2_METADATA_DISABLED is true";
  if (environment("AWS_EC2_METADATA_DISABLED") != "true") {
    auto role = role_of_machine();
    if (role) return role;
    of_machine = role.error().message;
  }
  return fail(Error::Code::kRefused,
              "there are no credentials for it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY where this program runs, or "
              "write profile {} in {} (looked for in the environment, in {}, in {}, and as this machine's role: {})",
              profile(), credentials, credentials, config, of_machine);
}

}  // namespace

std::optional<std::string> ini_value(const std::string& text, const std::string& section, const std::string& field) {
  std::istringstream lines(text);
  std::string current;
  for (std::string line; std::getline(lines, line);) {
    const bool nested = line.starts_with(' ') || line.starts_with('\t');  // of the setting above it
    line = trimmed(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line.front() == '[') {
      current = trimmed(line.substr(1, line.find(']') - 1));
      continue;
    }
    const size_t equals = line.find('=');
    if (nested || current != section || equals == std::string::npos) continue;
    if (trimmed(line.substr(0, equals)) == field) return trimmed(line.substr(equals + 1));
  }
  return std::nullopt;
}

Result<Credentials> CredentialSource::get() {
  const std::scoped_lock lock(mutex_);
  if (found_ && found_->expires && *found_->expires - kBeforeExpiry < system_clock::now()) {
    // A role's next credentials are there before its last have expired; where they are not, the last still count.
    if (auto next = find()) found_ = *std::move(next);
    return *found_;
  }
  if (!found_) {
    auto first = find();
    if (!first) {
      if (had_some_) first.error().code = Error::Code::kUnavailable;
      return first;
    }
    found_ = *std::move(first);
    had_some_ = true;
  }
  return *found_;
}

void CredentialSource::forget() {
  const std::scoped_lock lock(mutex_);
  found_.reset();
}

std::string configured_region() {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (const std::string region = environment(name); !region.empty()) return region;
  }
  return ini_value(text_of(file_of("AWS_CONFIG_FILE", "config")), section_of_config(), "region").value_or("");
}

std::string configured_endpoint() {
  for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    if (std::string url = environment(name); !url.empty()) {
      while (url.ends_with('/')) url.pop_back();
      return url;
    }
  }
  return "";
}

}  // namespace holdfast::storage
