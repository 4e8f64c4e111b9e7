#include "rendezvous/client/pulse.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::steady_clock;

constexpr long kAnswerMs = 1200;  // after TCP's second try, 1 s later
constexpr std::chrono::milliseconds kPause{2000};

}  // namespace

steady_clock::time_point Pulse::after_a_pause() {
  return steady_clock::now() + kPause;
}

bool Pulse::is_silent(const std::string& base_url, bool loopback, const std::string& authority) {
  if (easy_ == nullptr && steady_clock::now() >= next_) begin(base_url, loopback, authority);
  return silent_;
}

bool Pulse::took(const CURLMsg& message) {
  if (easy_ == nullptr || message.easy_handle != easy_) return false;
  silent_ = message.data.result != CURLE_OK;
  end();
  next_ = after_a_pause();
  return true;
}

void Pulse::begin(const std::string& base_url, bool loopback, const std::string& authority) {
  easy_ = curl_easy_init();
  if (easy_ == nullptr) return;
  const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(easy_, option, value); };
  set(CURLOPT_URL, (base_url + "/healthz").c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_TIMEOUT_MS, kAnswerMs);
  set(CURLOPT_FRESH_CONNECT, 1L);
  if (loopback) set(CURLOPT_NOPROXY, "*");
  if (!authority.empty()) set(CURLOPT_CAINFO, authority.c_str());
  set(
      CURLOPT_WRITEFUNCTION, +[](char*, size_t, size_t size, void*) { return size; });
  curl_multi_add_handle(multi_, easy_);
}

void Pulse::end() {
  if (easy_ == nullptr) return;
  curl_multi_remove_handle(multi_, easy_);
  curl_easy_cleanup(easy_);
  easy_ = nullptr;
}

}  // namespace holdfast::rendezvous
