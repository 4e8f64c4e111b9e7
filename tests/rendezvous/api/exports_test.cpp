// A checkpoint's model as a download: whole or refused in words, bounded in number, and nothing is left of those that are cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <span>

#include "model/data/byte_tokenizer.h"
#include "model/exchange/export.h"
#include "storage/checkpoint.h"
#include "tests/model/exchange/parameters.h"
#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kExport = "/v1/jobs/j1/checkpoints/20/export";

// A reader that takes only as much as it was told to, until it leaves.
class Reader : public EventStream {
 public:
  explicit Reader(size_t takes = SIZE_MAX) : takes_(takes) {}

  bool write(const std::string& chunk) override {
    const std::lock_guard lock(mutex_);
    if (!open_) return false;
    text_ += chunk;
    changed_.notify_all();
    return true;
  }
  void close() override { end(&whole_); }
  void abandon() override { end(&cut_); }
  void leave() { end(&left_); }
  void take_the_rest() {
    const std::lock_guard lock(mutex_);
    takes_ = SIZE_MAX;
    changed_.notify_all();
  }
  size_t unread() const override { return 0; }
  bool await_reader(size_t) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !open_ || text_.size() < takes_; });
    return open_;
  }

  // Waits for the end: whether it is the end of the whole.
  bool is_whole() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return whole_ || cut_; });
    return whole_;
  }
  void wait_for_bytes(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return text_.size() >= count; });
  }
  const std::string& text() const { return text_; }

 private:
  void end(bool* how) {
    const std::lock_guard lock(mutex_);
    if (open_ || left_) *how = true;
    open_ = false;
    changed_.notify_all();
  }

  size_t takes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool open_ = true, whole_ = false, cut_ = false, left_ = false;
};

class Exports : public ServiceTest {
 protected:
  void SetUp() override { begin_training(); }

  // A checkpoint of j1 in `folder`, registered as being in `store`.
  void make_checkpoint(int64_t step, const std::string& folder, const std::string& store = "") {
    const auto objects = storage::open_directory_store(folder);
    ASSERT_TRUE(objects) << objects.error().message;
    const model::ParameterTable table(model::kExchangeConfig);
    std::vector<storage::ConstTensor> tensors;
    for (const model::Parameter& one : table.entries) {
      const auto values = std::span(values_).subspan(static_cast<size_t>(one.offset), static_cast<size_t>(one.count));
      tensors.push_back({one.name, "float32", one.shape, std::as_bytes(values)});
    }
    storage::Manifest manifest;
    manifest.job = "j1";
    manifest.step = step;
    manifest.spec = {{"n_layer", 2},      {"n_embd", 12},    {"n_head", 3},
                     {"vocab_size", 261}, {"block_size", 7}, {"train_data_path", folder_ + "/data/train.bin"}};
    storage::WriteOptions options;
    options.shard_bytes = 4096;
    ASSERT_TRUE(storage::write_checkpoint(**objects, manifest, tensors, options));
    CheckpointRecord record = record_of(step);
    record.store = store;
    ASSERT_EQ(ask("POST", "/v1/jobs/j1/checkpoints", record).status(), 201);
  }
  std::string own() const { return folder_ + "/checkpoints/j1"; }
  // Cuts the last shard short; returns its name.
  std::string damage() const {
    std::string shard;
    for (const auto& file : std::filesystem::directory_iterator(own() + "/step-0000000020")) {
      if (file.path().extension() == ".hfs") shard = std::max(shard, file.path().filename().string());
    }
    std::filesystem::resize_file(own() + "/step-0000000020/" + shard, 100);
    return shard;
  }
  void make_tokenizer() {
    const auto tokenizer = model::make_byte_tokenizer();
    std::filesystem::create_directories(folder_ + "/data");
    std::ofstream(folder_ + "/data/" + tokenizer->file_name()) << tokenizer->file_bytes();
  }
  // The file that `holdfast ckpt export` would write, by its name in the folder.
  std::string exported(model::ExportRequest request, const std::string& name) {
    request.folder = folder_ + "/expected";
    request.name = "j1 step 20";
    const auto written = model::export_model(model::parameters_in(model::kExchangeConfig, values_), request);
    EXPECT_TRUE(written) << written.error();
    std::ostringstream bytes;
    bytes << std::ifstream(request.folder + "/" + name, std::ios::binary).rdbuf();
    return bytes.str();
  }
  static std::shared_ptr<Reader> begin(const Answer& answer, size_t takes = SIZE_MAX) {
    auto reader = std::make_shared<Reader>(takes);
    EXPECT_EQ(answer.status(), 200) << answer.response->body;
    if (answer.status() == 200) answer.response->on_stream(reader);
    return reader;
  }
  // A download that waits for its reader, who has taken the first bytes.
  std::shared_ptr<Reader> begin_slowly() {
    auto reader = begin(ask_until_answered("GET", kExport), 1);
    reader->wait_for_bytes(1);
    return reader;
  }
  Answer when_there_is_room(const std::string& method) {
    Answer answer = ask_until_answered(method, kExport);
    while (answer.status() == 503) answer = ask_until_answered(method, kExport);
    return answer;
  }

  std::vector<float> values_ = model::random_parameters(model::kExchangeConfig);
};

TEST_F(Exports, TheWholeFileComesWithItsNameAndSize) {
  make_checkpoint(20, own());
  make_tokenizer();
  const Answer answer = ask_until_answered("GET", std::string(kExport) + "?format=gguf&dtype=float16");
  const auto reader = begin(answer);
  EXPECT_TRUE(reader->is_whole());
  const auto tokenizer = model::make_byte_tokenizer();
  EXPECT_TRUE(reader->text() ==
              exported({model::ExchangeFormat::kGguf, kernels::DType::kFloat16, tokenizer.get(), "", ""}, "model.gguf"));
  EXPECT_EQ(answer.response->headers.at("Content-Disposition"), "attachment; filename=\"j1-step-20-float16.gguf\"");
  EXPECT_EQ(answer.response->stream_bytes, reader->text().size());
}

TEST_F(Exports, FilesOfAFolderComeAsATar) {
  make_checkpoint(20, own());
  const Answer answer = ask_until_answered("GET", kExport);
  const auto reader = begin(answer);
  EXPECT_TRUE(reader->is_whole());
  EXPECT_EQ(answer.response->content_type, "application/x-tar");
  EXPECT_EQ(answer.response->headers.at("Content-Disposition"), "attachment; filename=\"j1-step-20-safetensors.tar\"");
  EXPECT_EQ(answer.response->stream_bytes, reader->text().size());
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"})
    EXPECT_THAT(reader->text(), HasSubstr(std::string("j1-step-20/") + name));
  const std::string bytes = exported({model::ExchangeFormat::kSafetensors, {}, nullptr, "", ""}, "model.safetensors");
  EXPECT_NE(reader->text().find(bytes), std::string::npos);
}

TEST_F(Exports, ATicketIsGoodOnceForAShortTimeAndWithoutAToken) {
  make_checkpoint(20, own());
  const Answer made = ask_until_answered("POST", kExport, R"({"format": "npz"})");
  ASSERT_EQ(made.status(), 201) << made.response->body;
  EXPECT_EQ(made.json()["file"], "j1-step-20-npz.tar");
  const std::string address = made.response->headers.at("Location");
  EXPECT_EQ(address, "/v1/downloads/" + made.json()["ticket"].get<std::string>());
  const auto download = [&] { return ask("GET", address, nullptr, {}, ""); };
  const auto reader = begin(download());
  EXPECT_TRUE(reader->is_whole());
  EXPECT_EQ(reader->text().size(), made.json()["bytes"]);
  EXPECT_EQ(download().json()["code"], "no_download");
  const std::string late = when_there_is_room("POST").response->headers.at("Location");
  passes(made.json()["good_for_s"].get<int64_t>() * 1000);
  EXPECT_EQ(ask("GET", late, nullptr, {}, "").status(), 404);
}

TEST_F(Exports, ACheckpointThatIsRemovedMeanwhileIsSentAllTheSame) {
  make_checkpoint(20, own());
  const auto whole = begin(ask_until_answered("GET", kExport));
  EXPECT_TRUE(whole->is_whole());
  const auto begun = begin(when_there_is_room("GET"), 1);
  begun->wait_for_bytes(1);
  const std::string ticket = when_there_is_room("POST").response->headers.at("Location");
  const auto objects = storage::open_directory_store(own());
  ASSERT_TRUE(storage::remove_checkpoint(**objects, 20));
  begun->take_the_rest();
  EXPECT_TRUE(begun->is_whole());
  EXPECT_TRUE(begun->text() == whole->text());
  const auto later = begin(ask("GET", ticket, nullptr, {}, ""));
  EXPECT_TRUE(later->is_whole());
  EXPECT_TRUE(later->text() == whole->text());
  EXPECT_EQ(when_there_is_room("GET").status(), 404);
}

TEST_F(Exports, ADamagedCheckpointIsNamedBeforeTheFirstByte) {
  make_checkpoint(20, own());
  const std::string shard = damage();
  for (const char* method : {"GET", "POST"}) {
    const Answer answer = when_there_is_room(method);
    EXPECT_EQ(answer.status(), 422) << method;
    EXPECT_EQ(answer.json()["code"], "corrupt");
    EXPECT_THAT(answer.json()["detail"], HasSubstr(shard));
  }
}

TEST_F(Exports, ACheckpointThatIsDamagedOnTheWayCutsTheDownload) {
  make_checkpoint(20, own());
  const auto reader = begin_slowly();
  damage();
  reader->take_the_rest();
  EXPECT_FALSE(reader->is_whole());
}

TEST_F(Exports, TwoAreDoneAtOnceAndAReaderThatLeavesMakesRoom) {
  make_checkpoint(20, own());
  const auto one = begin_slowly();
  const std::string ticket = ask_until_answered("POST", kExport).response->headers.at("Location");
  const Answer refused = ask_until_answered("GET", kExport);
  EXPECT_EQ(refused.status(), 503);
  EXPECT_EQ(refused.json()["code"], "busy");
  EXPECT_EQ(refused.response->headers.at("Retry-After"), "5");
  one->leave();
  const auto next = begin(when_there_is_room("GET"));
  EXPECT_TRUE(next->is_whole());
  const auto kept = begin(ask("GET", ticket, nullptr, {}, ""));
  EXPECT_TRUE(kept->is_whole()) << "a ticket keeps its room";
}

TEST_F(Exports, TheServiceEndsWhileAReaderIsSlow) {
  make_checkpoint(20, own());
  const auto reader = begin_slowly();
  const std::string ticket = ask_until_answered("POST", kExport).response->headers.at("Location");
  const Answer unused = ask("GET", ticket, nullptr, {}, "");
  service_.reset();
  EXPECT_FALSE(reader->is_whole());
  const auto late = begin(unused);
  EXPECT_FALSE(late->is_whole()) << "begun after the end";
}

TEST_F(Exports, RefusalsSayWhatThereIs) {
  make_checkpoint(20, own());
  const std::tuple<std::string, int, std::string> cases[] = {
      {"/v1/jobs/j9/checkpoints/20/export", 404, "there is no job j9"},
      {"/v1/jobs/j1/checkpoints/30/export", 404, "j1 has no checkpoint of step 30; it has those of steps 20"},
      {"/v1/jobs/j1/checkpoints/last/export", 400, "step: must be a whole number, not \"last\""},
      {std::string(kExport) + "?format=onnx", 400, "format: \"onnx\" is none: there are safetensors, gguf and npz"},
      {std::string(kExport) + "?dtype=int8", 400, "dtype: must be float32, float16 or bfloat16, not \"int8\""},
      {std::string(kExport) + "?format=npz&dtype=bfloat16", 400, "numpy has no bfloat16"},
      {std::string(kExport) + "?format=gguf", 409,
       "holdfast ckpt export job:j1@20 --format gguf --dtype float32 --tokenizer DIR --output j1-gguf"},
  };
  for (const auto& [target, status, words] : cases) {
    const Answer answer = ask_until_answered("GET", target);
    EXPECT_EQ(answer.status(), status) << target;
    EXPECT_THAT(answer.json()["detail"], HasSubstr(words)) << target;
  }
  for (const char* body : {"[]", "{", R"({"format": 3})", R"({"step": 3})", R"({"dtype": "int8"})"})
    EXPECT_EQ(ask_until_answered("POST", kExport, body).status(), 400) << body;
}

TEST_F(Exports, ASharedFolderIsReadWhereThisMachineSeesIt) {
  make_checkpoint(20, folder_ + "/shared/j1", folder_ + "/shared");
  EXPECT_TRUE(begin(ask_until_answered("GET", kExport))->is_whole());
  std::filesystem::rename(folder_ + "/shared", folder_ + "/away");
  const Answer answer = when_there_is_room("GET");
  EXPECT_EQ(answer.status(), 409);
  EXPECT_EQ(answer.json()["code"], "not_here");
  EXPECT_THAT(answer.json()["detail"], HasSubstr("holdfast ckpt export " + folder_ + "/shared/j1@20 --format safetensors"));
}

}  // namespace
}  // namespace holdfast::rendezvous
