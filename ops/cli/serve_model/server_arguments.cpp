#include "ops/cli/serve_model/server_arguments.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <csignal>
#include <fstream>
#include <span>

#include "rendezvous/http/listen_address.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::ops {
namespace {

sigset_t ending_signals() {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  return ending;
}

}  // namespace

std::string ServerArguments::address(int port) const {
  return listen.substr(0, listen.rfind(':') + 1) + std::to_string(port);
}

void add_server_arguments(CLI::App& command, ServerArguments& arguments, const std::string& listen) {
  arguments.listen = listen;
  command.add_option("--listen", arguments.listen, "Address to listen on")->capture_default_str()->type_name("HOST:PORT");
  command.add_option("--token_file", arguments.token_file, "File with the tokens that may ask, one a line [everybody may]")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  command.add_option("--tls_cert", arguments.tls_cert, "Certificate (a chain in PEM): serve https")->type_name("FILE");
  command.add_option("--tls_key", arguments.tls_key, "The certificate's key (PEM)")->type_name("FILE");
  command.add_flag("--allow_insecure", arguments.allow_insecure,
                   "Listen beyond this machine without tokens or TLS, on a network that is trusted");
}

std::set<std::string> tokens_of(const ServerArguments& arguments) {
  std::set<std::string> tokens;
  const std::string& path = arguments.token_file;
  if (path.empty()) return tokens;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) tokens.insert(rendezvous::sha256_hex(std::as_bytes(std::span(line))));
  }
  if (tokens.empty()) throw Failure{kBadInput, fmt::format("--token_file {}: no token is in it: expected one a line", path)};
  return tokens;
}

rendezvous::HttpServerOptions http_options(const ServerArguments& arguments, const std::set<std::string>& tokens) {
  const auto loopback = rendezvous::listens_on_loopback(arguments.listen);
  if (!loopback) throw Failure{kBadInput, loopback.error()};
  if (!*loopback && !arguments.allow_insecure && (tokens.empty() || arguments.tls_cert.empty())) {
    throw Failure{
        kBadInput,
        fmt::format("--listen {}: other machines could read along and ask for texts: give --token_file, --tls_cert and "
                    "--tls_key, or --allow_insecure on a network that is trusted",
                    arguments.listen)};
  }
  rendezvous::HttpServerOptions http;
  http.listen = arguments.listen;
  http.tls = {arguments.tls_cert, arguments.tls_key};
  return http;
}

void hold_ending_signals() {
  const sigset_t ending = ending_signals();
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
}

void await_ending_signal() {
  const sigset_t ending = ending_signals();
  int signal = 0;
  sigwait(&ending, &signal);
}

}  // namespace holdfast::ops
