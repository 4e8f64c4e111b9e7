// Routes of data sets: made of chunks that are there, listed, read, removed.
//
// Promises: a data set is answered 201 or 200 when its manifest and its name are durable and all its chunks are there; they
// stay as long as it does. Another manifest under a name replaces what the name means; the one before stays while a job uses
// it. Refuses, with 409: a manifest whose chunks are not there; to remove a data set that a job which is not over uses. Thread:
// the owner's; manifests are read, written and made into JSON on the keeper's threads.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/api/data_sets/keeper.h"

namespace holdfast::rendezvous {

class DataSetsApi {
 public:
  explicit DataSetsApi(DataKeeper& keeper) : keeper_(keeper) {}

  void put_set(Call& call);
  void get_sets(Call& call);
  void get_set(Call& call);
  void delete_set(Call& call);

 private:
  void keep(const Call& call, const std::string& name, const KeptDataSet& pushed);
  void kept(const Call& call, const KeptDataSet& set, const DataSetName& name, const storage::Result<bool>& written);

  DataKeeper& keeper_;
};

}  // namespace holdfast::rendezvous
