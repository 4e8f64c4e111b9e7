#include "rendezvous/api/exports/sender.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace holdfast::rendezvous {

std::shared_ptr<void> ExportSender::take_room() {
  if (taken_->fetch_add(1) >= kAtOnce) {
    taken_->fetch_sub(1);
    return nullptr;
  }
  return {taken_.get(), [taken = taken_](void*) { taken->fetch_sub(1); }};
}

HttpResponse ExportSender::answer(std::shared_ptr<ModelDownload> download) {
  HttpResponse response;
  const model::SingleFile& file = download->file();
  response.content_type = file.media_type;
  response.headers["Content-Disposition"] = fmt::format("attachment; filename=\"{}\"", file.name);
  response.stream_bytes = static_cast<uint64_t>(file.bytes);
  response.on_stream = [self = shared_from_this(), download = std::move(download)](const std::shared_ptr<EventStream>& stream) {
    const bool posted = self->pool_.post([self, download, stream] { self->send(download, stream); },
                                         [stream](const std::string&) { stream->abandon(); });
    if (!posted) stream->abandon();
  };
  return response;
}

void ExportSender::send(const std::shared_ptr<ModelDownload>& download, const std::shared_ptr<EventStream>& stream) {
  if (!enter(stream)) return stream->abandon();
  const auto sent = download->send(*stream);
  leave(stream.get());
  if (!sent) spdlog::warn("the download of {} was cut: {}", download->file().name, sent.error());
}

bool ExportSender::enter(const std::shared_ptr<EventStream>& stream) {
  const std::lock_guard lock(mutex_);
  if (*stopping_) return false;
  streams_.push_back(stream);
  return true;
}

void ExportSender::leave(const EventStream* stream) {
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [stream](const auto& one) { return one.get() == stream; });
}

void ExportSender::cancel() {
  std::vector<std::shared_ptr<EventStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    *stopping_ = true;
    streams = streams_;
  }
  for (const auto& stream : streams) stream->abandon();
}

}  // namespace holdfast::rendezvous
