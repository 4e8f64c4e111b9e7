// Texts of the models that jobs serve, for whoever asks the service: POST /v1/completions and GET /v1/models; and the replicas'
// way to what they are to write, POST /v1/workers/{id}/texts.
//
// Promises: a text goes on with another replica, with the same tokens, when its own dies, freezes or is drained
// (replica_pool.h). A request is answered by one model from its first token to its last; with `follow` those that come later
// get a newer checkpoint of the job as soon as half of the replicas have it. Texts under way are in memory alone: when the
// service ends, its clients are cut off, and the same request with the seed that it was told brings the same text again.
// Refuses beside what the desk does (completions/desk.h): a model that no job serves (404), one that no replica has ready
// (503). Thread: the owner's; on others, tokenizers are read and long prompts made tokens of.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "model/data/tokenizer.h"
#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/long_polls.h"
#include "rendezvous/api/turn/turn.h"
#include "rendezvous/completions/desk.h"
#include "rendezvous/completions/replicas.h"
#include "rendezvous/http/work_pool.h"
#include "rendezvous/text/prometheus/prometheus_text.h"

namespace holdfast::rendezvous {

// Puts OpenAI's member `error` into a problem that answers a path of its API, where its clients look for it; a problem may have
// members of its own (RFC 9457, section 3.2). Thread: any.
void add_openai_error(const std::string& path, HttpResponse& response);

class ServingApi {
 public:
  ServingApi(Turn& turn, std::string data_dir, DeskSettings settings);

  void post_completion(Call& call);
  void get_models(Call& call);
  void post_texts(Call& call);  // a replica's

  void tend();  // after the commands of a turn
  void add_metrics(PrometheusText& text) const;
  void close();   // ends every text and every wait
  void finish();  // after close(): waits for a long prompt that is becoming tokens

 private:
  struct Served;  // a job

  const Job* job_of(const std::string& id) const;      // null: it does not serve now
  const Job* find_job(const std::string& name) const;  // null: none of that id or name serves
  std::string names() const;                           // of the jobs that serve
  tl::expected<AskedModel, ApiError> find(const std::string& name);
  void aim(const Job& job, Served& served) const;
  bool answer_poll(const LongPolls::Poll& poll);
  void tend_replicas(const Job& job, Served& served);
  void read_tokenizer(const std::string& job, Millis now);  // where it is time to

  Turn& turn_;
  const std::string data_dir_;
  const std::string life_;  // of this object, for replicas that speak of an earlier one's texts
  CompletionDesk desk_;
  std::map<std::string, std::shared_ptr<Served>> served_;  // by job
  LongPolls polls_;
  std::atomic<bool> is_closed_ = false;
  WorkPool tokenizers_, prompts_;  // last: their work uses the others
};

}  // namespace holdfast::rendezvous
