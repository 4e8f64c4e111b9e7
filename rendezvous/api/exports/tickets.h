// Downloads that wait for a browser. A link cannot carry a token, so each has a secret name in its address instead, which is
// good once and for a short time.
//
// Thread: the owner's; time comes in as an argument.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "rendezvous/api/exports/model_download.h"

namespace holdfast::rendezvous {

class DownloadTickets {
 public:
  static constexpr int64_t kGoodForMs = 30'000;

  std::string add(std::shared_ptr<ModelDownload> download, int64_t now_ms);
  // Null: there is none of that name, or no more.
  std::shared_ptr<ModelDownload> take(const std::string& name, int64_t now_ms);
  void drop_late(int64_t now_ms);
  void clear() { waiting_.clear(); }

 private:
  struct Waiting {
    std::shared_ptr<ModelDownload> download;
    int64_t until_ms;
  };
  std::map<std::string, Waiting> waiting_;  // as many as ExportSender has room for
};

}  // namespace holdfast::rendezvous
