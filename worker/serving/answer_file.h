// The answers to a file of requests while they come: lines in NAME.part in any order, then in that of the requests in NAME.
//
// Promises and refusals: request_file.h. A line is JSON with "line" (the request's, from 1), "request" (a digest of it), "step"
// (the checkpoint's) and "system_fingerprint". Only one process writes to a NAME.part. Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tl/expected.hpp>

namespace holdfast::worker {

class AnswerFile {
 public:
  // Takes up what NAME.part has, if it is there.
  static tl::expected<AnswerFile, std::string> open(std::string path, const std::string& fingerprint, int64_t step);
  AnswerFile(AnswerFile&& other) noexcept;
  AnswerFile& operator=(AnswerFile&&) = delete;
  ~AnswerFile();

  // The digest of the request that line `line` was answered for, if it was.
  std::optional<std::string> digest_of(int64_t line) const;
  size_t answers() const { return places_.size(); }
  tl::expected<void, std::string> add(const nlohmann::json& answer);
  // All are there: NAME has them in their order, and NAME.part is gone.
  tl::expected<void, std::string> finish();

 private:
  struct Place {  // of an answer in NAME.part
    int64_t offset = 0, bytes = 0;
    uint64_t digest = 0;
  };
  AnswerFile(std::string path, int file) : path_(std::move(path)), file_(file) {}
  std::string part() const { return path_ + ".part"; }
  std::string failed(const char* what) const;
  tl::expected<void, std::string> take_up(const std::string& fingerprint, int64_t step);
  tl::expected<std::string, std::string> read(const Place& place) const;

  std::string path_;
  int file_;
  bool is_ours_ = false;  // no other process writes to it
  int64_t end_ = 0;
  std::map<int64_t, Place> places_;
};

}  // namespace holdfast::worker
