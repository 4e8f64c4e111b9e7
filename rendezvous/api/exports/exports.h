// Routes that give a checkpoint's model as a file: at once, or by a ticket that a browser's link can carry.
//
// Promises: whatever is wrong with the request or the checkpoint is answered as a problem before a byte of the file is sent. If
// something goes wrong after that, the connection is cut before the announced size, so nobody takes a part for the whole.
// Thread: the owner's, which looks the checkpoint up in the catalogue; all reading happens on threads of its own.
#pragma once

#include <functional>
#include <memory>

#include "rendezvous/api/exports/sender.h"
#include "rendezvous/api/exports/tickets.h"
#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"

namespace holdfast::rendezvous {

class ExportsApi {
 public:
  ExportsApi(Turn& turn, ExportPlaces places);
  ~ExportsApi();

  void get_export(Call& call);    // the file
  void post_export(Call& call);   // a ticket for it
  void get_download(Call& call);  // the file, for the ticket
  void cancel();
  void finish() { sender_->finish(); }

 private:
  using Prepared = std::function<void(std::shared_ptr<ModelDownload>)>;
  void prepare(const Call& call, ExportOrder order, Prepared then);
  void give_ticket(const Call& call, std::shared_ptr<ModelDownload> download);

  Turn& turn_;
  const ExportPlaces places_;
  DownloadTickets tickets_;
  const std::shared_ptr<ExportSender> sender_;
};

}  // namespace holdfast::rendezvous
