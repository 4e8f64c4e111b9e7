// `holdfast serve`: the service as a process.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/store/record_limits.h"

namespace holdfast::rendezvous {

struct ServeOptions {
  std::string listen = "127.0.0.1:7070";      // port 0 picks a free one
  std::string tls_cert, tls_key;              // PEM files, both or neither
  bool allow_insecure = false;                // listen beyond this machine without TLS
  std::vector<std::string> checkpoint_roots;  // where `resume_from PATH` may lead; none: anywhere
  double requests_per_s = 500;                // of each token; 0: no limit
  std::string data_dir;
  std::string log_level = "info";
  Retention retention;
};

// Runs until SIGINT or SIGTERM. Returns the exit code: 0 ended as asked, 1 failed while running, 2 could not start (says why).
int serve(const ServeOptions& options);

}  // namespace holdfast::rendezvous
