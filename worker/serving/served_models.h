// The model that texts are asked of, and those before it, which write what they began to its end.
//
// Promises: a request is one model's from its first token to its last. A model that was replaced is given back once nothing is
// written by it: not before, and by forget_finished() alone, whose thread waits for the engine's. Thread: any, but for
// forget_finished(), which is not an engine's.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "model/parameter_table.h"
#include "worker/serving/text_server.h"

namespace holdfast::worker {

struct ServedModel {
  std::string name, fingerprint;
  model::Gpt2Config config;
  int64_t created_s = 0;
  int64_t step = 0;                      // of its checkpoint
  std::shared_ptr<const void> memory{};  // of the decoder, which `texts` uses
  std::unique_ptr<TextServer> texts{};
};

class ServedModels {
 public:
  using Load = model::TextEngine::Load;

  explicit ServedModels(ServedModel first);

  std::shared_ptr<const ServedModel> now() const;
  // Requests from now on are the next one's.
  void replace(ServedModel next);
  // Gives back models whose texts have all ended. Returns how many are left beside the present one.
  size_t forget_finished();

  void count(Load& sum) const;  // adds what all of them together have to do, and did since the start
  int64_t replaced() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const ServedModel> now_;
  std::vector<std::shared_ptr<const ServedModel>> before_;
  Load of_forgotten_{};
  int64_t replaced_ = 0;
};

}  // namespace holdfast::worker
