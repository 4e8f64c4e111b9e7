// `holdfast serve`: the service as a process.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/store/record_limits.h"

namespace holdfast::rendezvous {

struct ServeOptions {
  std::string listen = "127.0.0.1:7070";      // port 0 picks a free one
  std::string tls_cert, tls_key;              // PEM files, both or neither
  bool allow_insecure = false;                // other machines may connect without TLS
  std::vector<std::string> checkpoint_roots;  // `resume_from PATH` must be below one of these folders; none: it may be anywhere
  double requests_per_s = 500;                // for each token; 0: no limit
  std::string data_dir;
  std::string log_level = "info";
  Retention retention;
};

// Runs until SIGINT or SIGTERM. Returns the exit code: 0 for an end by signal, 1 for a failure while running, 2 for a failed
// start, whose reason is on stderr. Thread: the main thread, once, before there are others.
int serve(const ServeOptions& options);

}  // namespace holdfast::rendezvous
