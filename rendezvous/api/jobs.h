// Routes of jobs that are there: show, list, stop, pause, resume, scale. New jobs come through submissions.h.
//
// Thread: the owner's.
#pragma once

#include <functional>
#include <string>

#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"

namespace holdfast::rendezvous {

class JobsApi {
 public:
  explicit JobsApi(Turn& turn) : state_(turn.state) {}

  void get_jobs(Call& call);
  void get_job(Call& call);
  void get_job_spec(Call& call);
  void post_stop(Call& call);
  void post_pause(Call& call);
  void post_resume(Call& call);
  void post_scale(Call& call);

 private:
  void steer(Call& call, const std::function<OrRefusal<void>(const std::string& job)>& verb);
  bool refuse_unseen(const Call& call, const Job& job);
  void answer_steered(const Call& call, const Job& job);

  Coordinator& state_;
};

}  // namespace holdfast::rendezvous
