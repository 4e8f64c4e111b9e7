// Tells whoever waits for prepare how far it is, a few times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "model/data/prepare/prepare.h"

namespace holdfast::model {

class ProgressTeller {
 public:
  ProgressTeller(const PrepareOptions& options, const std::vector<std::string>& files, int pass)
      : options_(options), pass_(pass) {
    for (const std::string& file : files) {
      std::error_code error;
      const auto bytes = std::filesystem::file_size(file, error);
      if (!error) bytes_in_all_ += static_cast<int64_t>(bytes);
    }
  }

  // `now`, but for the pass and the bytes in all.
  void tell(PrepareProgress now) {
    const auto time = std::chrono::steady_clock::now();
    if (!options_.on_progress || time < next_) return;
    next_ = time + std::chrono::milliseconds(200);
    now.pass = pass_;
    now.bytes_in_all = bytes_in_all_;
    options_.on_progress(now);
  }

 private:
  const PrepareOptions& options_;
  int pass_;
  int64_t bytes_in_all_ = 0;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace holdfast::model
