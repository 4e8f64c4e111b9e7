// A service that dies once at every write, and before and after every commit, of a job's life, and is started again.
#include <gmock/gmock.h>

#include "tests/rendezvous/api/obedient_workers.h"

namespace holdfast::rendezvous {
namespace {

class ServiceDeathsTest : public ObedientWorkersTest {
 protected:
  struct Killed : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  // Runs a job of 20 steps on two workers, one of which dies and comes back. Returns the job's id.
  std::string live() {
    comes("w1");
    comes("w2");
    Json spec = this->spec();
    spec["total_steps"] = 20;
    const Answer submitted = insist("POST", "/v1/jobs", spec, {{"idempotency-key", "k1"}});
    EXPECT_EQ(submitted.status(), 201);
    const std::string job = submitted.json()["id"];
    for (int rounds = 0; rounds < 40 && acknowledged_ < 20; ++rounds) {
      round(job);
      if (rounds == 7) dies("w2");
      if (rounds == 8) comes("w2", 2);
    }
    const std::string twin = insist("POST", "/v1/jobs", spec, {{"idempotency-key", "k1"}}).json()["id"];
    EXPECT_EQ(twin, job) << "one key, one job";
    return job;
  }

  // Lets the service die once, at the n-th moment; every moment is counted.
  void die_at(int64_t n) {
    moments_ = 0;
    on_moment_ = [this, n](const StoreMoment&) {
      if (++moments_ == n) throw Killed("killed by the test");
    };
  }

  void expect_all_is_known(const std::string& job) {
    const Json shown = insist("GET", "/v1/jobs/" + job).json();
    EXPECT_EQ(shown["state"], "succeeded") << shown["reason"];
    EXPECT_EQ(shown["step"], 20);
    EXPECT_EQ(shown["generation"], newest_);
    EXPECT_EQ(insist("GET", "/v1/jobs").json()["jobs"].size(), 1u);
    std::set<int64_t> catalogue;
    const Json checkpoints = insist("GET", "/v1/jobs/" + job + "/checkpoints").json();
    for (const Json& checkpoint : checkpoints["checkpoints"]) catalogue.insert(checkpoint["step"].get<int64_t>());
    EXPECT_EQ(catalogue, checkpoints_);
    expect_ledger_exact(job);
  }
  void expect_ledger_exact(const std::string& job) {
    const Json ledger = insist("GET", "/v1/jobs/" + job + "/ledger").json();
    std::map<std::pair<int64_t, int64_t>, int> uses;
    for (const Json& row : ledger["rows"]) {
      if (!row["voided_by"].is_null()) continue;
      for (int64_t step = row["first_step"]; step <= row["last_step"]; ++step) {
        for (int64_t m = row["first_microbatch"]; m < row["last_microbatch"]; ++m) ++uses[{step, m}];
      }
    }
    EXPECT_EQ(uses.size(), 20u * ledger["microbatches"].get<size_t>());
    for (const auto& [use, times] : uses) EXPECT_EQ(times, 1) << "step " << use.first << " microbatch " << use.second;
    EXPECT_EQ(ledger["steps"].size(), 20u) << "each step's digest";
  }

  int64_t moments_ = 0;
};

TEST_F(ServiceDeathsTest, NoAnsweredRequestIsLostWhereverTheServiceDies) {
  die_at(0);
  begin_anew();
  expect_all_is_known(live());
  const int64_t moments = moments_;
  ASSERT_GT(moments, 50) << "writes and commits of a whole life";
  for (int64_t n = 1; n <= moments; ++n) {
    SCOPED_TRACE(fmt::format("killed at moment {} of {}", n, moments));
    die_at(n);
    begin_anew();
    expect_all_is_known(live());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace holdfast::rendezvous
