// Routes of checkpoint objects, which the service keeps for workers without a shared folder.
//
// Promises: a put is answered when the object is durable. All reading and writing happens on the pool's threads; the owner only
// looks the job up.
// Thread: the owner's.
#pragma once

#include <functional>
#include <string>

#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"
#include "rendezvous/http/work_pool.h"
#include "storage/object_store.h"

namespace holdfast::rendezvous {

class ObjectsApi {
 public:
  ObjectsApi(Turn& turn, std::string data_dir, int threads);

  void list_objects(Call& call);
  void get_object(Call& call);
  void put_object(Call& call);
  void delete_object(Call& call);
  void finish() { pool_.finish(); }  // does what is queued, and takes no more

 private:
  using Work = std::function<HttpResponse(storage::ObjectStore&)>;
  void on_objects(Call& call, Work work);
  bool refuse_ended_writer(const Call& call);

  Turn& turn_;
  const std::string data_dir_;
  WorkPool pool_;  // last: its work uses the others
};

}  // namespace holdfast::rendezvous
