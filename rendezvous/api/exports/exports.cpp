#include "rendezvous/api/exports/exports.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/text/list_in_words.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr int kRetryAfterS = 5;
constexpr size_t kStepsShown = 10;  // the newest
constexpr const char* kDtypes = "float32, float16 or bfloat16";

std::string format_names() {
  return in_words({std::begin(model::kExchangeFormats), std::end(model::kExchangeFormats)});
}

Outcome<ExportOrder> checked(ExportOrder order) {
  if (!model::exchange_format(order.format)) {
    return tl::unexpected(
        bad_field("format", fmt::format("\"{}\" is none: there are {}", order.format.substr(0, 40), format_names())));
  }
  if (!kernels::dtype_named(order.dtype)) {
    return tl::unexpected(bad_field("dtype", fmt::format("must be {}, not \"{}\"", kDtypes, order.dtype.substr(0, 40))));
  }
  if (order.format == "npz" && order.dtype == "bfloat16")
    return tl::unexpected(bad_field("dtype", "numpy has no bfloat16: take float32 or float16 for npz"));
  return order;
}

Outcome<ExportOrder> order_of_query(const HttpRequest& request) {
  ExportOrder order;
  if (request.query.contains("format")) order.format = text_query(request, "format");
  if (request.query.contains("dtype")) order.dtype = text_query(request, "dtype");
  return checked(std::move(order));
}

Outcome<ExportOrder> order_of_body(const HttpRequest& request) {
  ExportOrder order;
  if (request.body.empty()) return order;
  const auto body = read_json(request);
  if (!body) return tl::unexpected(body.error());
  if (!body->is_object()) return tl::unexpected(bad_field("", "expected an object such as {\"format\": \"safetensors\"}"));
  for (const auto& [name, value] : body->items()) {
    std::string* field = name == "format" ? &order.format : name == "dtype" ? &order.dtype : nullptr;
    if (field == nullptr) return tl::unexpected(bad_field(name.substr(0, 64), "no such field; there are format and dtype"));
    if (!value.is_string())
      return tl::unexpected(bad_field(name, fmt::format("must be a text, not {}", value.dump().substr(0, 40))));
    *field = value.get<std::string>();
  }
  return checked(std::move(order));
}

Problem no_checkpoint(const Job& job, int64_t step) {
  std::vector<std::string> steps;
  for (auto it = job.checkpoints.rbegin(); it != job.checkpoints.rend() && steps.size() < kStepsShown; ++it)
    steps.push_back(std::to_string(it->first));
  std::ranges::reverse(steps);
  const bool all = steps.size() == job.checkpoints.size();
  return problem(
      404, "no_checkpoint",
      fmt::format("{} has no checkpoint of step {}; {}", job.id, step,
                  steps.empty() ? "it has none"
                                : fmt::format("it has those of steps {}{}", in_words(steps), all ? "" : ", and older ones")));
}

// Adds the checkpoint that the path names.
Outcome<ExportOrder> with_checkpoint(ExportOrder order, const Job& job, const std::string& named) {
  const auto [end, error] = std::from_chars(named.data(), named.data() + named.size(), order.step);
  if (named.empty() || error != std::errc() || end != named.data() + named.size() || order.step < 0)
    return tl::unexpected(bad_field("step", fmt::format("must be a whole number, not \"{}\"", named.substr(0, 40))));
  const auto found = job.checkpoints.find(order.step);
  if (found == job.checkpoints.end()) return tl::unexpected(no_checkpoint(job, order.step));
  order.job = job.id;
  order.store = found->second.store;
  return order;
}

HttpResponse no_room() {
  HttpResponse response = problem_answer(problem(
      503, "busy",
      fmt::format("{} models are being exported, which is all that is done at once: try again", ExportSender::kAtOnce)));
  response.headers.insert_or_assign("Retry-After", fmt::format("{}", kRetryAfterS));
  return response;
}

HttpResponse stopping() {
  return problem_answer(problem(503, "unavailable", "the service is stopping: try again"));
}

}  // namespace

ExportsApi::ExportsApi(Turn& turn, ExportPlaces places)
    : turn_(turn), places_(std::move(places)), sender_(std::make_shared<ExportSender>()) {}

ExportsApi::~ExportsApi() {
  cancel();
  finish();
}

void ExportsApi::cancel() {
  sender_->cancel();
  tickets_.clear();
}

void ExportsApi::prepare(const Call& call, ExportOrder order, Prepared then) {
  tickets_.drop_late(turn_.clock.steady_ms());
  auto room = sender_->take_room();
  if (room == nullptr) return call.answer(no_room());
  const bool posted = sender_->post(
      [this, order = std::move(order), room = std::move(room), reply = call.reply, then = std::move(then)] {
        auto download = ModelDownload::prepare(order, places_, sender_->stopping(), room);
        download ? then(*std::move(download)) : reply(problem_answer(download.error()));
      },
      [reply = call.reply](const std::string& why) { reply(problem_answer(problem(500, "internal_error", why))); });
  if (!posted) call.answer(stopping());
}

void ExportsApi::get_export(Call& call) {
  const Job* job = need_job(turn_.state, call);
  if (job == nullptr) return;
  auto order = order_of_query(call.request);
  if (order) order = with_checkpoint(*std::move(order), *job, call.arguments[1]);
  if (!order) return call.answer(order.error());
  prepare(call, *std::move(order), [sender = sender_, reply = call.reply](std::shared_ptr<ModelDownload> download) {
    reply(sender->answer(std::move(download)));
  });
}

void ExportsApi::post_export(Call& call) {
  const Job* job = need_job(turn_.state, call);
  if (job == nullptr) return;
  auto order = order_of_body(call.request);
  if (order) order = with_checkpoint(*std::move(order), *job, call.arguments[1]);
  if (!order) return call.answer(order.error());
  prepare(call, *std::move(order), [this, call, commands = turn_.commands](std::shared_ptr<ModelDownload> download) {
    if (!commands->add([this, call, download = std::move(download)] { give_ticket(call, download); })) call.reply(stopping());
  });
}

void ExportsApi::give_ticket(const Call& call, std::shared_ptr<ModelDownload> download) {
  const model::SingleFile& file = download->file();
  Json shown = {{"file", file.name}, {"bytes", file.bytes}, {"good_for_s", DownloadTickets::kGoodForMs / 1000}};
  const std::string ticket = tickets_.add(std::move(download), turn_.clock.steady_ms());
  shown["ticket"] = ticket;
  HttpResponse response = json_answer(201, shown);
  response.headers["Location"] = "/v1/downloads/" + ticket;
  call.answer(std::move(response));
}

void ExportsApi::get_download(Call& call) {
  const auto download = tickets_.take(call.arguments[0], turn_.clock.steady_ms());
  if (download == nullptr) {
    return call.answer(problem(404, "no_download",
                               fmt::format("there is no such download any more: it is good once, for {} s. Ask for another "
                                           "with POST /v1/jobs/JOB/checkpoints/STEP/export",
                                           DownloadTickets::kGoodForMs / 1000)));
  }
  call.answer(sender_->answer(download));
}

}  // namespace holdfast::rendezvous
