// The route by which workers find each other's chunks of a data set.
//
// The knowledge of who has which chunks is in memory alone (data_sets/hand_out.h): each worker says it again every second.
// Thread: the owner's.
#pragma once

#include <map>
#include <string>

#include "rendezvous/api/data_sets/keeper.h"
#include "rendezvous/data_sets/hand_out.h"

namespace holdfast::rendezvous {

class DataHoldersApi {
 public:
  explicit DataHoldersApi(DataKeeper& keeper) : keeper_(keeper) {}

  void post_holders(Call& call);
  void tend();  // once in a tick

 private:
  DataKeeper& keeper_;
  std::map<std::string, HandOut> by_digest_;
};

}  // namespace holdfast::rendezvous
