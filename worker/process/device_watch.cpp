#include "worker/process/device_watch.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace holdfast::worker {

DeviceWatch::DeviceWatch(const kernels::DeviceInfo& device, Outbox& outbox)
    : outbox_(outbox),
      reader_(make_health_reader(device.pci_address)),
      watch_(fmt::format("the GPU {} ({})", device.pci_address, device.model)) {
  if (!device.pci_address.empty() && reader_ == nullptr)
    spdlog::info("no driver tells the health of the GPU {}: its errors and its heat are not watched", device.pci_address);
}

void DeviceWatch::look(const std::string& job) {
  const auto now = HealthWatch::Clock::now();
  if (reader_ == nullptr || now < next_) return;
  next_ = now + kEvery;
  for (const HealthNews& news : watch_.news(reader_->read(), now)) {
    spdlog::warn("{}: {}", news.kind, news.message);
    if (!job.empty()) outbox_.event(job, news.kind, news.message);
  }
}

}  // namespace holdfast::worker
