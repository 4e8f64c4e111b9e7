// The arguments of commands that answer over HTTP with a model: where they listen, and who may ask.
#pragma once

#include <set>
#include <string>

#include "ops/cli/command/command.h"
#include "rendezvous/http/server.h"

namespace holdfast::ops {

struct ServerArguments {
  std::string listen, token_file, tls_cert, tls_key;
  bool allow_insecure = false;

  std::string scheme() const { return tls_cert.empty() ? "http" : "https"; }
  std::string address(int port) const;  // with the port that was taken
};
// `listen`: what it is without --listen.
void add_server_arguments(CLI::App& command, ServerArguments& arguments, const std::string& listen);

// SHA-256 of each token in --token_file, in hex; none without it. Throws a Failure.
std::set<std::string> tokens_of(const ServerArguments& arguments);
// Refuses to listen beyond this machine without tokens and TLS: throws a Failure.
rendezvous::HttpServerOptions http_options(const ServerArguments& arguments, const std::set<std::string>& tokens);

// Blocks SIGINT and SIGTERM in this thread and those that it begins; before there are others.
void hold_ending_signals();
void await_ending_signal();

}  // namespace holdfast::ops
