#include "rendezvous/api/objects.h"

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string_view>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/data_dir/object_folders.h"
#include "storage/checksum.h"

namespace holdfast::rendezvous {
namespace {

HttpResponse with_store(const std::string& data_dir, const std::string& job,
                        const std::function<HttpResponse(storage::ObjectStore&)>& work) {
  auto store = open_objects_folder(data_dir, job);
  return store ? work(**store) : problem_answer(storage_problem(store.error()));
}

template <typename T>
HttpResponse empty_or_problem(const storage::Result<T>& result) {
  return result ? empty_answer() : problem_answer(storage_problem(result.error()));
}

std::optional<Problem> altered_on_the_way(const std::string& key, const std::string& checksum, const std::string& body) {
  if (checksum.empty()) return std::nullopt;
  const std::string found = storage::checksum_hex(std::as_bytes(std::span(body)));
  if (found == checksum) return std::nullopt;
  return problem(
      400, "altered_on_the_way",
      fmt::format("the {} bytes of {} that came have the checksum {}, those sent had {}: nothing was kept, send them again",
                  body.size(), key, found, checksum));
}

// "step-0000000060/manifest.json" is 60; -1 for any other key.
int64_t step_of_manifest(const std::string& key) {
  constexpr std::string_view kBefore = "step-", kAfter = "/manifest.json";
  if (!key.starts_with(kBefore) || !key.ends_with(kAfter)) return -1;
  int64_t step = -1;
  const char *begin = key.data() + kBefore.size(), *end = key.data() + key.size() - kAfter.size();
  const auto [rest, error] = std::from_chars(begin, end, step);
  return error == std::errc() && rest == end ? step : -1;
}

constexpr size_t kObjectsWaitingMax = 256;

}  // namespace

ObjectsApi::ObjectsApi(Turn& turn, std::string data_dir, int threads)
    : turn_(turn), data_dir_(std::move(data_dir)), pool_(threads, kObjectsWaitingMax) {}

void ObjectsApi::on_objects(Call& call, Work work) {
  if (need_job(turn_.state, call) == nullptr) return;
  if (call.arguments.size() > 1 && !storage::valid_key(call.arguments[1])) {
    return call.answer(
        bad_field("key", fmt::format("\"{}\" is no object's key: parts of letters, digits and ._- between single slashes",
                                     call.arguments[1].substr(0, 200))));
  }
  const bool posted = pool_.post(
      [this, job = call.arguments[0], work = std::move(work), reply = call.reply] { reply(with_store(data_dir_, job, work)); },
      [reply = call.reply](const std::string& why) { reply(problem_answer(problem(500, "internal_error", why))); });
  if (!posted) call.answer(problem(503, "unavailable", "too many objects are being read and written: try again"));
}

void ObjectsApi::list_objects(Call& call) {
  const std::string prefix = text_query(call.request, "prefix");
  on_objects(call, [prefix](storage::ObjectStore& store) {
    const auto keys = store.list(prefix);
    if (!keys) return problem_answer(storage_problem(keys.error()));
    return json_answer(200, {{"keys", *keys}});
  });
}

void ObjectsApi::get_object(Call& call) {
  on_objects(call, [key = call.arguments[1]](storage::ObjectStore& store) {
    const auto bytes = store.get(key);
    if (!bytes) return problem_answer(storage_problem(bytes.error()));
    HttpResponse response;
    response.content_type = "application/octet-stream";
    response.body.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    return response;
  });
}

// A writer that names its worker and incarnation may change objects only while that incarnation lives. True: it does not, and
// the call is answered.
bool ObjectsApi::refuse_ended_writer(const Call& call) {
  const auto& headers = call.request.headers;
  const auto worker = headers.find("holdfast-worker"), incarnation = headers.find("holdfast-incarnation");
  if (incarnation == headers.end()) return false;
  const auto over = turn_.state.refusal_if_ended(worker == headers.end() ? "the worker" : worker->second, incarnation->second);
  if (over) call.answer(*over);
  return over.has_value();
}

void ObjectsApi::put_object(Call& call) {
  if (refuse_ended_writer(call)) return;
  const auto sent = call.request.headers.find("holdfast-checksum");
  const std::string checksum = sent == call.request.headers.end() ? "" : sent->second;
  auto body = std::make_shared<std::string>(std::move(call.request.body));
  on_objects(call, [key = call.arguments[1], checksum, body](storage::ObjectStore& store) {
    if (const auto altered = altered_on_the_way(key, checksum, *body)) return problem_answer(*altered);
    return empty_or_problem(store.put(key, std::as_bytes(std::span(*body))));
  });
}

// A checkpoint without its manifest does not exist, so the catalogue drops it with the manifest.
void ObjectsApi::delete_object(Call& call) {
  if (refuse_ended_writer(call)) return;
  const std::string job = call.arguments[0], key = call.arguments[1];
  const int64_t step = step_of_manifest(key);
  Reply reply = call.reply;
  if (step >= 0) {
    call.reply = [this, reply, job, step](HttpResponse response) {
      const bool removed = response.status == 204;
      turn_.commands->add_result([this, reply, job, step, removed, response] {
        if (removed) turn_.state.checkpoint_removed(job, step);
        turn_.replies.add(reply, response);
      });
    };
  }
  on_objects(call, [key](storage::ObjectStore& store) { return empty_or_problem(store.remove(key)); });
}

}  // namespace holdfast::rendezvous
