#include "rendezvous/api/exports/tickets.h"

#include <utility>

#include "rendezvous/text/random_hex.h"

namespace holdfast::rendezvous {
namespace {

constexpr size_t kSecretBytes = 16;

}  // namespace

std::string DownloadTickets::add(std::shared_ptr<ModelDownload> download, int64_t now_ms) {
  std::string name = random_hex(kSecretBytes);
  waiting_[name] = {std::move(download), now_ms + kGoodForMs};
  return name;
}

std::shared_ptr<ModelDownload> DownloadTickets::take(const std::string& name, int64_t now_ms) {
  drop_late(now_ms);
  auto found = waiting_.extract(name);
  return found ? std::move(found.mapped().download) : nullptr;
}

void DownloadTickets::drop_late(int64_t now_ms) {
  std::erase_if(waiting_, [now_ms](const auto& one) { return one.second.until_ms <= now_ms; });
}

}  // namespace holdfast::rendezvous
