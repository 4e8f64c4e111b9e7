#include "worker/serving/request_file.h"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/decode/text_engine.h"
#include "rendezvous/completions/completion.h"
#include "rendezvous/text/sha256.h"
#include "worker/serving/answer_file.h"

namespace holdfast::worker {
namespace {

using Json = nlohmann::json;
using rendezvous::Completion;
using rendezvous::CompletionHead;
using rendezvous::CompletionRequest;

struct Request {
  int64_t line = 0;
  std::string digest = {};
  Json id = {};  // its writer's; null: none
  uint64_t seed = 0;
  CompletionRequest fields = {};
  std::vector<std::vector<int32_t>> prompts = {};
};

// The requests of a file, line by line. An empty line is none.
class Requests {
 public:
  Requests(const RequestFile& file, const model::Tokenizer& tokenizer, int64_t block_size)
      : file_(file), tokenizer_(tokenizer), block_size_(block_size), lines_(file.requests) {}

  // Nothing: that was the last.
  tl::expected<std::optional<Request>, std::string> next() {
    if (!lines_.is_open()) return tl::unexpected(fmt::format("{}: it cannot be read", file_.requests));
    for (std::string text; std::getline(lines_, text);) {
      ++line_;
      if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
      auto request = read(text);
      if (!request) return tl::unexpected(fmt::format("{}:{}: {}", file_.requests, line_, request.error()));
      return std::optional(*std::move(request));
    }
    if (lines_.bad()) return tl::unexpected(fmt::format("{}:{}: it cannot be read any further", file_.requests, line_));
    return std::nullopt;
  }
  // Of the last one, in the words of next().
  std::string named(const std::string& problem) const { return fmt::format("{}:{}: {}", file_.requests, line_, problem); }

 private:
  tl::expected<Request, std::string> read(const std::string& text) const {
    auto object = rendezvous::read_json_object(text);
    if (!object) {
      return tl::unexpected(
          fmt::format("the line {}; one is, as an example, {{\"prompt\": \"Once\", \"max_tokens\": 50}}", object.error()));
    }
    Json json = *std::move(object);
    for (auto at = json.begin(); at != json.end();) at = at->is_null() ? json.erase(at) : std::next(at);  // as if not there
    Request request{.line = line_};
    if (const auto id = json.find("id"); id != json.end()) {
      if (!id->is_string() && !id->is_number_integer())
        return tl::unexpected(fmt::format("id: {}, expected a text or a whole number", id->dump()));
      request.id = *id;
      json.erase(id);
    }
    for (const auto& [name, value] : file_.defaults.items()) json.emplace(name, value);
    json.emplace("model", file_.model);
    json.emplace("seed", static_cast<int64_t>(file_.seed + static_cast<uint64_t>(line_) - 1));
    const std::string body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    auto fields = rendezvous::read_completion_request(body);
    if (!fields) return tl::unexpected(fields.error().message);
    if (fields->stream) return tl::unexpected<std::string>("stream: a file has none; leave it out");
    if (fields->model != file_.model)
      return tl::unexpected(fmt::format("model: \"{}\", expected {} or nothing", fields->model, file_.model));
    if (const auto excess = rendezvous::excess_of(*fields, block_size_)) return tl::unexpected(excess->message);
    request.digest = rendezvous::sha256_hex(std::as_bytes(std::span(body))).substr(0, 16);
    request.seed = fields->seed.value_or(0);
    request.prompts = rendezvous::prompts_of(*fields, tokenizer_);
    request.fields = *std::move(fields);
    return request;
  }

  const RequestFile& file_;
  const model::Tokenizer& tokenizer_;
  const int64_t block_size_;
  std::ifstream lines_;
  int64_t line_ = 0;
};

class Answering {
 public:
  Answering(const RequestFile& file, model::Decoder& decoder, const model::Tokenizer& tokenizer, int64_t block_size)
      : file_(file), tokenizer_(tokenizer), block_size_(block_size), engine_(decoder) {}

  tl::expected<RequestFileProgress, std::string> run() {
    auto answers = AnswerFile::open(file_.answers, file_.fingerprint, file_.step);
    if (!answers) return tl::unexpected(answers.error());
    if (const auto checked = check(*answers); !checked) return tl::unexpected(checked.error());
    Requests requests(file_, tokenizer_, block_size_);
    for (bool there_are_more = true;;) {
      while (there_are_more && static_cast<int64_t>(texts_.size()) < file_.texts_at_once) {
        auto request = requests.next();
        if (!request) return tl::unexpected(request.error());
        there_are_more = request->has_value();
        if (there_are_more && !answers->digest_of((*request)->line)) begin(**std::move(request));
      }
      if (engine_.is_idle()) break;
      for (const model::TextProgress& progress : engine_.step()) {
        if (const auto taken = take(progress, *answers); !taken) return tl::unexpected(taken.error());
      }
      if (file_.on_progress) file_.on_progress(progress_);
    }
    if (const auto finished = answers->finish(); !finished) return tl::unexpected(finished.error());
    return progress_;
  }

 private:
  struct Ongoing {
    Request request;
    Completion completion;
  };

  // Every line, before anything is written.
  tl::expected<void, std::string> check(const AnswerFile& answers) {
    Requests requests(file_, tokenizer_, block_size_);
    for (;;) {
      auto request = requests.next();
      if (!request) return tl::unexpected(request.error());
      if (!request->has_value()) break;
      const auto digest = answers.digest_of((*request)->line);
      if (digest && *digest != (*request)->digest) {
        return tl::unexpected(requests.named(
            fmt::format("another request than the one that was answered in {0}.part: give another name, or remove {0}.part",
                        file_.answers)));
      }
      const Completion completion = completion_of(**request);
      for (size_t i = 0; i < completion.texts(); ++i) {
        if (const auto refusal = engine_.refusal(completion.order(i))) return tl::unexpected(requests.named(*refusal));
      }
      ++progress_.requests;
      progress_.gone_on_from += digest ? 1 : 0;
    }
    if (static_cast<size_t>(progress_.gone_on_from) != answers.answers()) {
      return tl::unexpected(
          fmt::format("{0}.part has answers to requests that are not in {1}: give another name, or remove {0}.part",
                      file_.answers, file_.requests));
    }
    progress_.answered = progress_.gone_on_from;
    return {};
  }

  Completion completion_of(const Request& request) const {
    return {CompletionHead{.id = "", .model = file_.model, .fingerprint = file_.fingerprint, .seed = request.seed},
            request.fields, request.prompts, tokenizer_};
  }

  void begin(Request request) {
    Completion completion = completion_of(request);
    const auto ongoing = std::make_shared<Ongoing>(Ongoing{std::move(request), std::move(completion)});
    for (size_t i = 0; i < ongoing->completion.texts(); ++i)
      texts_.emplace(engine_.add(ongoing->completion.order(i)).value(), std::pair(ongoing, i));
  }

  tl::expected<void, std::string> take(const model::TextProgress& progress, AnswerFile& answers) {
    const auto [ongoing, index] = texts_.at(progress.text);
    const int64_t written_before = ongoing->completion.written_tokens();
    const auto outcome = progress.end == model::TextEnd::kNotYet ? rendezvous::TextOutcome::kGoesOn
                         : progress.end == model::TextEnd::kStop ? rendezvous::TextOutcome::kStop
                                                                 : rendezvous::TextOutcome::kLength;
    std::string events;  // none: it is no stream
    const bool goes_on = ongoing->completion.add(index, progress.tokens, outcome, events);
    progress_.written_tokens += ongoing->completion.written_tokens() - written_before;
    if (goes_on) return {};
    if (progress.end == model::TextEnd::kNotYet) engine_.cancel(progress.text);
    texts_.erase(progress.text);
    if (!ongoing->completion.has_ended()) return {};
    ++progress_.answered;
    return answers.add(answer_of(*ongoing));
  }

  Json answer_of(const Ongoing& ongoing) const {
    Json answer = ongoing.completion.answer();
    for (const char* name : {"id", "object", "created"}) answer.erase(name);  // each time others
    answer["line"] = ongoing.request.line;
    answer["request"] = ongoing.request.digest;
    answer["step"] = file_.step;
    if (!ongoing.request.id.is_null()) answer["id"] = ongoing.request.id;
    return answer;
  }

  const RequestFile& file_;
  const model::Tokenizer& tokenizer_;
  const int64_t block_size_;
  model::TextEngine engine_;
  std::map<int64_t, std::pair<std::shared_ptr<Ongoing>, size_t>> texts_;
  RequestFileProgress progress_;
};

}  // namespace

tl::expected<RequestFileProgress, std::string> write_answers(const RequestFile& file, model::Decoder& decoder,
                                                             const model::Tokenizer& tokenizer, int64_t block_size) {
  return Answering(file, decoder, tokenizer, block_size).run();
}

}  // namespace holdfast::worker
