// `holdfast serve`: the service as a process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/api/scaling/scaler.h"
#include "rendezvous/completions/desk_settings.h"
#include "rendezvous/store/record_limits.h"

namespace holdfast::rendezvous {

struct ServeOptions {
  std::string listen = "127.0.0.1:7070";      // port 0 picks a free one
  std::string tls_cert, tls_key;              // PEM files, both or neither
  bool allow_insecure = false;                // other machines may connect without TLS
  bool ignore_sigterm = false;                // SIGINT alone ends it
  std::vector<std::string> checkpoint_roots;  // `resume_from PATH` must be below one of these folders; none: it may be anywhere
  double requests_per_s = 500;                // for each token; 0: no limit
  int64_t data_limit_bytes = 0;               // of data sets; 0: the disk's
  ScaleHook scale_hook;                       // called when workers are wanted, or are not
  DeskSettings texts;                         // for requests that jobs' replicas answer
  std::string data_dir;
  // postgresql://…, which several services may share: one leads, the others stand by; "": a file in data_dir.
  std::string store;
  std::string shared_dir;       // checkpoints and data sets are kept there, where all of them see it; "": in data_dir
  double pull_mib_per_s = 100;  // of checkpoints from the service that leads, while this one stands by; 0: as fast as it goes
  std::string advertise;        // the URL at which others reach this service; "": made of `listen`
  std::string log_level = "info";
  Retention retention;
};

// Runs until SIGINT or SIGTERM (or SIGINT alone: ServeOptions::ignore_sigterm). Returns the exit code: 0 for an end by signal,
// 1 for a failure while running, 2 for a failed start, whose reason is on stderr. Thread: the main thread, once, before there
// are others.
int serve(const ServeOptions& options);

}  // namespace holdfast::rendezvous
