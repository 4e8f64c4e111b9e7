// The service with data sets: a test pushes bytes as `holdfast data push` does, and speaks for workers that fetch them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "rendezvous/data_sets/chunk_shelf.h"
#include "rendezvous/protocol/data_set.h"
#include "rendezvous/text/sha256.h"
#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {

class DataSetsTest : public ServiceTest {
 protected:
  using Json = nlohmann::json;

  static std::string name_of(const std::string& bytes) { return sha256_hex(std::as_bytes(std::span(bytes))); }
  // A file of one chunk; where `tokens` is above 0 it is said to be a token file.
  static DataSetFile file_of(const std::string& name, const std::string& bytes, int64_t tokens = 0, int64_t largest_id = 0) {
    DataSetFile file{name, static_cast<int64_t>(bytes.size()), {name_of(bytes)}, tokens, largest_id, ""};
    if (tokens > 0) file.tokens_digest = std::to_string(tokens) + "-abc";
    return file;
  }

  Answer puts_chunk(const std::string& bytes) { return wait_for(send("PUT", "/v1/data/chunks/" + name_of(bytes), bytes)); }
  Answer gets_chunk(const std::string& bytes, const std::string& token = "worker-token") {
    return wait_for(send("GET", "/v1/data/chunks/" + name_of(bytes), "", {}, token));
  }
  Answer puts_set(const std::string& name, const DataManifest& manifest) {
    return wait_for(send("PUT", "/v1/data/sets/" + name, to_json(manifest).dump()));
  }
  // A data set of one train.bin with these bytes; returns its digest.
  std::string pushes(const std::string& name, const std::string& bytes, int64_t tokens = 0, int64_t largest_id = 0) {
    EXPECT_EQ(puts_chunk(bytes).status(), 204);
    const DataManifest manifest{{file_of("train.bin", bytes, tokens, largest_id)}};
    const int status = puts_set(name, manifest).status();
    EXPECT_TRUE(status == 201 || status == 200) << status;
    return manifest.digest();
  }
  Json missing(const std::vector<std::string>& names) {
    return ask("POST", "/v1/data/missing", {{"chunks", names}}).json()["missing"];
  }
  Json list() { return ask("GET", "/v1/data/sets").json(); }
  std::string chunk_file(const std::string& bytes) const {
    const std::string name = name_of(bytes);
    return folder_ + "/data/chunks/" + name.substr(0, 2) + "/" + name;
  }
  static void damage(const std::string& file) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.put('!');
  }
  // Takes turns until the keeper's threads have done what they were given.
  template <typename Holds>
  bool becomes(const Holds& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds() && std::chrono::steady_clock::now() < deadline) {
      service_->turn();
      std::this_thread::yield();
    }
    return holds();
  }
  Answer submits(const std::string& train, Json changes = Json::object()) {
    Json body = spec();
    body["train_data_path"] = train;
    body.update(changes);
    return ask("POST", "/v1/jobs", body);
  }
};

}  // namespace holdfast::rendezvous
