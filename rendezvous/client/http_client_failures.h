// The ways in which a request fails, in words for people. Thread: any.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <string>

#include "rendezvous/client/http_client.h"

namespace holdfast::rendezvous {

// Of an answer with a status of 400 or above, whatever its body is.
Problem problem_of(const HttpReply& reply);
// Of an answer that leads elsewhere (3xx): nothing was done, and it is not followed, for it may be to anywhere.
Problem redirection(const std::string& base_url, const HttpReply& reply);
// Why there was no answer. `error_text`: libcurl's own words.
std::string cause_of(CURLcode code, CURL* easy, const char* error_text, std::chrono::milliseconds connect_timeout,
                     std::chrono::milliseconds timeout);

}  // namespace holdfast::rendezvous
