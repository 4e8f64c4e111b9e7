// POST /v1/jobs: from what a user sent to a job in the queue.
//
// Promises: every check is made before the job is there. A submission that is repeated under the same Idempotency-Key gives the
// job that the first one made. With resume_from the checkpoint is verified first, on a thread of its own, because that reads
// every byte of it; the checks whose outcome may have changed meanwhile are then made again (still_holds). The data sets that
// a job names are looked up now, and their digests go into its spec. With dry_run nothing is done, and the answer says what
// would be.
// Thread: the owner's.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"
#include "rendezvous/data_sets/catalogue.h"
#include "rendezvous/http/work_pool.h"
#include "rendezvous/queries/dependency.h"

namespace holdfast::rendezvous {

struct Submission {
  nlohmann::json request;  // as it was sent
  bool dry_run = false;
  std::string key;  // Idempotency-Key; "" for none, and for dry runs
  JobSpec spec;
  Dependency dependency;
  std::vector<StateSource> resume;  // verified checkpoints; none: the job begins from nothing
  std::string resume_note;          // the sentence about them, for the event
};

class Submissions {
 public:
  // Checkpoints are kept below `data_dir`; `checkpoint_roots`: where resume_from may lead, none: anywhere. `data_sets` outlives
  // this. `reached_in_plain`: other machines reach the service without TLS, of which ring_tls warns.
  Submissions(Turn& turn, std::string data_dir, std::vector<std::string> checkpoint_roots, const Catalogue& data_sets,
              bool reached_in_plain);

  void post_job(Call& call);
  void finish() { verifying_.finish(); }  // verifies what is queued, and takes no more

 private:
  bool answer_repeated(const Call& call, const Submission& submission);
  Outcome<void> check_spec(Submission& submission);
  Outcome<void> check_data(Submission& submission);
  Outcome<void> check_dependency(Submission& submission);
  void verify_checkpoint(const Call& call, Submission submission);
  bool still_holds(const Call& call, Submission& submission);
  void carry_out(const Call& call, const Submission& submission);
  void answer_dry_run(const Call& call, const Submission& submission);

  Turn& turn_;
  const std::string data_dir_;
  const std::vector<std::string> checkpoint_roots_;
  const Catalogue& data_sets_;
  const bool reached_in_plain_;
  WorkPool verifying_;  // last: its work uses the others. Apart from the objects' threads, for which workers wait
};

}  // namespace holdfast::rendezvous
