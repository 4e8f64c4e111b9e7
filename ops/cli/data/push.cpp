#include "ops/cli/data/push.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <span>
#include <utility>

#include "model/data/describe.h"
#include "ops/cli/command/api.h"
#include "ops/cli/data/chunk_sender.h"
#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::ops {
namespace {

using rendezvous::DataManifest;
using rendezvous::DataSetFile;
using rendezvous::kChunkBytes;

constexpr size_t kAskedAtOnce = 8;  // chunks, which are in memory meanwhile
constexpr int kRounds = 3;          // a chunk may be found damaged, or be removed, between its push and the manifest's

[[noreturn]] void changed(const FileToPush& file) {
  throw Failure{kBadInput, fmt::format("{} changed while it was pushed: push it again when nobody writes to it", file.path)};
}

// An open file that is read from its beginning to its end.
class FileReader {
 public:
  explicit FileReader(const FileToPush& file) : file_(file), descriptor_(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0)
      throw Failure{kBadInput, fmt::format("cannot read {}: {}", file.path, rendezvous::describe_errno(errno))};
  }
  ~FileReader() { ::close(descriptor_); }
  FileReader(const FileReader&) = delete;

  // At most kChunkBytes; "" at the end.
  std::string next() {
    std::string bytes(static_cast<size_t>(kChunkBytes), '\0');
    size_t got = 0;
    while (got < bytes.size()) {
      const ssize_t more = ::read(descriptor_, bytes.data() + got, bytes.size() - got);
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) throw Failure{kBadInput, fmt::format("cannot read {}: {}", file_.path, rendezvous::describe_errno(errno))};
      if (more == 0) break;
      got += static_cast<size_t>(more);
    }
    bytes.resize(got);
    read_ += static_cast<int64_t>(got);
    if (read_ > file_.marks.bytes) changed(file_);
    return bytes;
  }

 private:
  const FileToPush& file_;
  const int descriptor_;
  int64_t read_ = 0;
};

// Chunks on their way to the service: a few are asked about together, and those that it lacks are sent.
class Chunks {
 public:
  Chunks(const Options& options, int64_t bytes_in_all, const std::function<void(const PushProgress&)>& on_progress)
      : asking_(options, never_), sender_(options), in_all_(bytes_in_all), on_progress_(on_progress) {}

  std::string add(std::string bytes) {
    std::string name = rendezvous::sha256_hex(std::as_bytes(std::span(bytes)));
    batch_.emplace_back(name, std::move(bytes));
    if (batch_.size() == kAskedAtOnce) hand_over();
    return name;
  }
  void finish() {
    hand_over();
    sender_.finish();
    show();
  }
  int64_t sent_bytes() const { return sender_.sent_bytes(); }

 private:
  void hand_over() {
    if (batch_.empty()) return;
    Json names = Json::array();
    for (const auto& [name, bytes] : batch_) names.push_back(name);
    const Json answer = asking_.ask("POST", "/v1/data/missing", {{"chunks", names}});
    const auto missing = answer.at("missing").get<std::set<std::string>>();
    for (auto& [name, bytes] : std::exchange(batch_, {})) {
      if (missing.contains(name)) {
        sender_.send(name, std::move(bytes));
      } else {
        there_bytes_ += static_cast<int64_t>(bytes.size());
      }
      show();
    }
  }
  void show() const {
    if (on_progress_) on_progress_({there_bytes_ + sender_.sent_bytes(), in_all_, sender_.sent_bytes()});
  }

  const std::atomic<bool> never_ = false;
  PatientClient asking_;
  ChunkSender sender_;
  std::vector<std::pair<std::string, std::string>> batch_;  // names and bytes
  int64_t there_bytes_ = 0;
  const int64_t in_all_;
  const std::function<void(const PushProgress&)>& on_progress_;
};

DataSetFile push_file(const FileToPush& file, Chunks& chunks) {
  DataSetFile pushed{file.name, file.marks.bytes, {}, 0, 0, ""};
  FileReader reader(file);
  for (std::string bytes = reader.next(); !bytes.empty(); bytes = reader.next())
    pushed.chunks.push_back(chunks.add(std::move(bytes)));
  if (marks_of(file.path) != file.marks) changed(file);
  return pushed;
}

// The tokens of a token file; any other file is pushed as it is.
void describe(const FileToPush& file, DataSetFile& pushed, PushReport& report) {
  if (!file.name.ends_with(".bin")) return;
  const auto data = model::describe_data_file(file.path);
  if (marks_of(file.path) != file.marks) changed(file);
  if (!data) {
    report.notes.push_back(fmt::format("{}; it is pushed as it is", data.error()));
    return;
  }
  pushed.tokens = data->tokens;
  pushed.largest_id = data->largest_id;
  pushed.tokens_digest = data->digest;
  const Json info = Json::parse(data->info, nullptr, false);
  if (info.is_object()) report.vocab_size = integer_at(info, "vocab_size", report.vocab_size);
}

// False: the service lacks a chunk again.
bool name_it(const Options& options, const std::string& name, const PushReport& report) {
  const std::atomic<bool> never = false;
  try {
    PatientClient(options, never).ask("PUT", "/v1/data/sets/" + name, to_json(report.manifest));
    return true;
  } catch (const RefusedPush& refused) {
    if (refused.code == "chunks_missing") return false;
    throw;
  }
}

void push_once(const Options& options, const FilesToPush& files, PushReport& report,
               const std::function<void(const PushProgress&)>& on_progress) {
  Chunks chunks(options, files.bytes, on_progress);
  report.manifest.files.clear();
  for (const FileToPush& file : files.files) report.manifest.files.push_back(push_file(file, chunks));
  chunks.finish();
  report.sent_bytes += chunks.sent_bytes();
}

}  // namespace

PushReport push(const Options& options, const FilesToPush& files, const std::string& name,
                const std::function<void(const PushProgress&)>& on_progress) {
  Api(options).get("/v1/data/sets?limit=1");  // a service that is not there, or a token that is not valid, ends it here
  PushReport report;
  try {
    for (int round = 1; round <= kRounds; ++round) {
      push_once(options, files, report, on_progress);
      report.notes.clear();
      for (size_t i = 0; i < files.files.size(); ++i) describe(files.files[i], report.manifest.files[i], report);
      report.digest = report.manifest.digest();
      if (name_it(options, name, report)) return report;
    }
  } catch (const RefusedPush& refused) {
    Failure failure = refused.failure;
    failure.message += "\nWhat the service has stays there for a day: the same command goes on where this one ended.";
    throw failure;
  }
  throw Failure{kUnreachable, "the service loses chunks as soon as they are there: look at its log"};
}

}  // namespace holdfast::ops
