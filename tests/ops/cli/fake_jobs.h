// Jobs, events and logs as the service shows them, and a fixture that runs commands over a fake service with such answers.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ops/cli/cli_runner.h"
#include "tests/ops/cli/fake_service.h"

namespace holdfast::ops {

using Json = nlohmann::json;

inline Json a_job(const std::string& state, const Json& more = Json::object()) {
  Json job = {{"id", "j1"},
              {"name", "demo"},
              {"state", state},
              {"reason", ""},
              {"step", 40},
              {"total_steps", 60},
              {"loss", 3.41234},
              {"validation_loss", nullptr},
              {"generation", 3},
              {"world_size", 2},
              {"restarts", 1},
              {"tokens_per_second", 10240.4},
              {"eta_s", 134.2},
              {"latest_checkpoint", {{"step", 20}, {"age_s", 14.2}}},
              {"state_hash", nullptr},
              {"state_hash_step", nullptr},
              {"submitted_at", "2026-01-02T03:04:05.678Z"},
              {"started_at", nullptr},
              {"finished_at", nullptr},
              {"workers", {{{"id", "w1"}, {"rank", 0}, {"node", "n1"}, {"device", "cpu"}}}},
              {"spec", {{"model", "tiny"}, {"batch_size", 2}, {"global_batch_size", 12}, {"train_data_path", "/d/train.bin"}}}};
  job.update(more);
  return job;
}
inline Json an_event(int id, const std::string& kind, const std::string& message) {
  return {{"id", id}, {"time", "2026-01-02T03:04:05.678Z"}, {"job", "j1"}, {"kind", kind}, {"message", message}};
}
inline Json a_log(const std::string& text) {
  return {{"id", 1}, {"time", "2026-01-02T03:04:05Z"}, {"worker", "w1"}, {"level", "info"}, {"text", text}};
}
inline Json a_page(const char* key, const std::vector<Json>& items, const Json& next = nullptr) {
  return {{key, items}, {"next_page_token", next}};
}

class Jobs : public ::testing::Test {
 protected:
  Said run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--server", service_.url()});
    return holdfast(std::move(arguments));
  }
  FakeService service_;
};

}  // namespace holdfast::ops
