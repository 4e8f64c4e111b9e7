// The API as people and their programs use it: tokens, submissions, lists, steering, problems.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <thread>

#include "rendezvous/queries/resume.h"
#include "storage/checkpoint.h"
#include "tests/rendezvous/api/service_harness.h"

namespace holdfast::rendezvous {
namespace {

using testing::Contains;
using testing::HasSubstr;
using Json = nlohmann::json;

TEST_F(ServiceTest, ProbesNeedNoTokenAndAllElseDoes) {
  for (const char* path : {"/healthz", "/readyz"}) EXPECT_EQ(ask("GET", path, nullptr, {}, "").status(), 200) << path;
  for (const char* path : {"/v1/jobs", "/v1/nodes", "/v1/jobs/j1/events"}) {
    const Answer none = ask("GET", path, nullptr, {}, ""), wrong = ask("GET", path, nullptr, {}, "admin-tokex");
    EXPECT_EQ(none.status(), 401) << path;
    EXPECT_EQ(none.response->headers.at("WWW-Authenticate"), "Bearer realm=\"holdfast\"");
    EXPECT_EQ(wrong.status(), 401) << path;
    EXPECT_EQ(ask("GET", path, nullptr, {}, "worker-token").status(), 403) << path;
  }
}

TEST_F(ServiceTest, AProblemWhereOpenaisClientsAskHasAnErrorInTheirForm) {
  const Json none = ask("POST", "/v1/completions", Json::object(), {}, "").json();
  EXPECT_EQ(none["error"]["code"], "no_token");
  EXPECT_EQ(none["error"]["type"], "invalid_request_error");
  EXPECT_EQ(none["error"]["message"], none["detail"]);
  EXPECT_EQ(ask("GET", "/v1/models", nullptr, {}, "worker-token").json()["error"]["code"], "not_allowed");
  EXPECT_FALSE(ask("GET", "/v1/jobs", nullptr, {}, "").json().contains("error"));
}

TEST_F(ServiceTest, AnUnknownPlaceIsAProblem) {
  const Answer nothing = ask("GET", "/v1/nothing"), no_job = ask("GET", "/v1/jobs/j9"), method = ask("DELETE", "/v1/jobs");
  EXPECT_EQ(nothing.status(), 404);
  EXPECT_EQ(nothing.response->content_type, "application/problem+json");
  EXPECT_EQ(no_job.status(), 404);
  EXPECT_THAT(no_job.json()["detail"], HasSubstr("j9"));
  EXPECT_EQ(method.status(), 405);
  EXPECT_EQ(method.response->headers.at("Allow"), "GET, POST");
  for (const char* verb : {"stop", "pause", "resume"})
    EXPECT_EQ(ask("POST", std::string("/v1/jobs/j9/") + verb).status(), 404) << verb;
}

TEST_F(ServiceTest, ASubmissionIsShownWhereItsLocationSays) {
  const Answer created = ask("POST", "/v1/jobs", spec());
  ASSERT_EQ(created.status(), 201);
  EXPECT_EQ(created.response->headers.at("Location"), "/v1/jobs/j1");
  const Json shown = show();
  EXPECT_EQ(shown["state"], "queued");
  EXPECT_EQ(shown["reason"], "waiting for 1 more worker: 1 needed, 0 there");
  for (const char* field :
       {"id", "state", "reason", "step", "total_steps", "loss", "generation", "world_size", "workers", "restarts",
        "tokens_per_second", "eta_s", "latest_checkpoint", "state_hash", "spec", "submitted_at"}) {
    EXPECT_TRUE(shown.contains(field)) << field;
  }
}

TEST_F(ServiceTest, NamesAndLabelsThatWouldCommandATerminalAreRefused) {
  const std::string command =
      "a\xc2\x9b"
      "2Jb";  // U+009B means the same as ESC [
  Json named = spec(), labelled = spec();
  named["name"] = command;
  labelled["labels"] = {{"team", command}};
  for (const auto& [bad, field] : {std::pair{named, "name"}, std::pair{labelled, "labels"}}) {
    const Answer answer = ask("POST", "/v1/jobs", bad);
    EXPECT_EQ(answer.status(), 400) << field;
    EXPECT_EQ(answer.json()["errors"][0]["field"], field);
  }
  EXPECT_EQ(ask("POST", "/v1/tokens", {{"name", command}, {"role", "read"}}).status(), 400);
  Json fine = spec();
  fine["name"] = "\xc2\xa0\xe6\xb6\x88\xe8\x9e\x8d";  // a no-break space and two Chinese characters
  EXPECT_EQ(ask("POST", "/v1/jobs", fine).status(), 201);
}

TEST_F(ServiceTest, MomentsThatWouldNeverChangeAreRefusedOfNewJobs) {
  Json fields = spec();
  fields["beta2"] = 0.99999999;
  const Answer answer = ask("POST", "/v1/jobs", fields);
  EXPECT_EQ(answer.status(), 400);
  EXPECT_THAT(answer.response->body, testing::HasSubstr("0.99999999 is 1 in float32"));
  fields["beta2"] = 0.9999999;
  EXPECT_EQ(ask("POST", "/v1/jobs", fields).status(), 201);
}

TEST_F(ServiceTest, ABadSpecIsRefusedWithEveryFieldNamed) {
  Json bad = spec();
  bad["total_steps"] = -1;
  bad["n_haed"] = 3;
  const Answer answer = ask("POST", "/v1/jobs", bad);
  EXPECT_EQ(answer.status(), 400);
  EXPECT_EQ(answer.json()["code"], "invalid_spec");
  std::vector<std::string> fields;
  const Json problem = answer.json();
  for (const auto& error : problem["errors"]) fields.push_back(error["field"]);
  EXPECT_THAT(fields, testing::UnorderedElementsAre("total_steps", "n_haed"));
  for (const std::string& nonsense : {std::string("{nonsense"), std::string(500'000, '[') + std::string(500'000, ']')}) {
    const Answer no_json = ask_until_answered("POST", "/v1/jobs", nonsense);
    EXPECT_EQ(no_json.status(), 400);
    EXPECT_EQ(no_json.json()["code"], "invalid_json");
  }
  EXPECT_EQ(ask("GET", "/v1/jobs").json()["jobs"].size(), 0u);
}

TEST_F(ServiceTest, TheSameKeyMakesOneJobAlsoAfterARestart) {
  const std::map<std::string, std::string> key = {{"idempotency-key", "k1"}};
  EXPECT_EQ(ask("POST", "/v1/jobs", spec(), key).json()["id"], "j1");
  EXPECT_EQ(ask("POST", "/v1/jobs", spec(), key).json()["id"], "j1");
  restart();
  const Answer again = ask("POST", "/v1/jobs", spec(), key);
  EXPECT_EQ(again.json()["id"], "j1");
  EXPECT_EQ(again.status(), 201);
  EXPECT_EQ(ask("POST", "/v1/jobs", spec("other"), key).status(), 409);
  EXPECT_EQ(ask("GET", "/v1/jobs").json()["jobs"].size(), 1u);
}

TEST_F(ServiceTest, ListsComeInPagesNewestFirst) {
  for (int i = 0; i < 5; ++i) ask("POST", "/v1/jobs", spec());
  std::vector<std::string> ids;
  std::string token;
  do {
    const Json page = ask("GET", "/v1/jobs?limit=2" + (token.empty() ? "" : "&page_token=" + token)).json();
    for (const auto& job : page["jobs"]) ids.push_back(job["id"]);
    token = page["next_page_token"].is_null() ? "" : page["next_page_token"].get<std::string>();
  } while (!token.empty());
  EXPECT_EQ(ids, (std::vector<std::string>{"j5", "j4", "j3", "j2", "j1"}));
  for (const char* bad : {"limit=0", "limit=1001", "limit=x", "page_token=zz"}) {
    const Answer answer = ask("GET", std::string("/v1/jobs?") + bad);
    EXPECT_EQ(answer.status(), 400) << bad;
    EXPECT_EQ(answer.json()["errors"][0]["field"], std::string(bad).substr(0, std::string(bad).find('=')));
  }
}

TEST_F(ServiceTest, AWrongStateIsNamed) {
  ask("POST", "/v1/jobs", spec());
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/resume").status(), 409);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/pause").status(), 202);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/pause").status(), 409);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/resume").json()["state"], "queued");
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/stop").json()["state"], "cancelled");
  const Answer again = ask("POST", "/v1/jobs/j1/stop");
  EXPECT_EQ(again.status(), 409);
  EXPECT_THAT(again.json()["detail"], HasSubstr("cancelled"));
}

TEST_F(ServiceTest, ScaleIsCheckedAndTakesWorkersBackInOrder) {
  begin_training();
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/scale", {{"nodes", 5}}).status(), 400) << "there are four microbatches";
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/scale", {{"nodse", 1}}).status(), 400);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/scale", {{"nodes", 1}, {"min_nodes", 2}}).status(), 400);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/scale", {{"nodes", 1}}).status(), 202);
  EXPECT_EQ(directive("w1"), "yield 1");
  for (const char* worker : {"w1", "w2"}) reports(worker, Phase::kPrepared, 1, 3);
  EXPECT_EQ(directive("w1"), "join 2");
  EXPECT_EQ(directive("w2"), "idle 0");
  EXPECT_EQ(show()["restarts"], 0);
}

class ResumeTest : public ServiceTest {
 protected:
  // Gives j1 verified checkpoints of steps 10 and 20.
  void with_checkpoints(const Json& changed = Json::object()) {
    begin_training(changed);
    for (const int64_t step : {10, 20}) {
      auto store = storage::open_directory_store(folder_ + "/checkpoints/j1");
      std::vector<float> values(16, static_cast<float>(step));
      storage::Manifest manifest;
      manifest.job = "j1";
      manifest.step = step;
      manifest.spec = show()["spec"];
      const storage::ConstTensor tensor{"w", "float32", {16}, std::as_bytes(std::span(values))};
      ASSERT_TRUE(storage::write_checkpoint(**store, manifest, std::span(&tensor, 1)));
      CheckpointRecord record = record_of(step);
      record.created_at = "2026-01-01T00:00:" + std::to_string(step) + "Z";
      ASSERT_EQ(ask("POST", "/v1/jobs/j1/checkpoints", record).status(), 201);
    }
  }
  void damage(int64_t step) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_ + "/checkpoints/j1/step-00000000" + std::to_string(step))) {
      if (entry.path().extension() == ".hfs") std::filesystem::resize_file(entry.path(), entry.file_size() - 1);
    }
  }
  Answer resumes_from(const std::string& choice, Json changed = Json::object()) {
    Json request = spec();
    request["resume_from"] = choice;
    request.update(changed);
    return ask_until_answered("POST", "/v1/jobs", request.dump());
  }
};

TEST_F(ResumeTest, EveryFormIsResolvedAndVerified) {
  with_checkpoints();
  const std::pair<std::string, int> forms[] = {{"latest", 20},
                                               {"10", 10},
                                               {"job:j1", 20},
                                               {"job:j1@10", 10},
                                               {folder_ + "/checkpoints/j1", 20},
                                               {folder_ + "/checkpoints/j1/step-0000000010", 10}};
  for (const auto& [form, step] : forms) {
    const Answer answer = resumes_from(form);
    ASSERT_EQ(answer.status(), 201) << form << ": " << answer.response->body;
    EXPECT_EQ(answer.json()["step"], step) << form;
  }
}

TEST_F(ResumeTest, WeightsOfAJobAreThoseOfOneOfItsCheckpoints) {
  with_checkpoints();
  const auto begun_with = [&](const std::string& init_from, Json changed = Json::object()) {
    Json request = spec();
    for (const char* size : {"n_layer", "n_embd", "n_head", "vocab_size", "block_size", "model"}) request.erase(size);
    request["init_from"] = init_from;
    request.update(changed);
    return ask("POST", "/v1/jobs", request);
  };
  const Answer first = begun_with("job:j1");
  ASSERT_EQ(first.status(), 201) << first.response->body;
  const Json begun = first.json();
  EXPECT_EQ(begun["spec"]["init_from"], "job:j1@20") << "the newest, whatever comes later";
  EXPECT_EQ(begun["step"], 0);
  for (const char* size : {"n_layer", "n_embd", "n_head", "vocab_size", "block_size"})
    EXPECT_EQ(begun["spec"][size], ask("GET", "/v1/jobs/j1").json()["spec"][size]) << size;
  EXPECT_EQ(begun_with("job:j1@10").json()["spec"]["init_from"], "job:j1@10");
  const std::pair<Answer, std::string> refused[] = {
      {begun_with("job:j7"), "there is no job j7"},
      {begun_with("job:j1@11"), "no checkpoint of step 11; there are"},
      {begun_with("job:"), "expected job:ID or job:ID@STEP"},
      {begun_with("job:j1", Json::object({{"n_layer", 5}})), "submit with --n_layer "}};
  EXPECT_EQ(begun["spec"]["tied_head"], "on");
  EXPECT_EQ(begun_with("job:j1", Json::object({{"tied_head", "off"}})).status(), 201) << "its head begins as the embedding";
  const Answer serves = ask("POST", "/v1/jobs", {{"kind", "serve"}, {"init_from", "job:j1"}, {"tokenizer", "/data"}});
  ASSERT_EQ(serves.status(), 201) << serves.response->body;
  EXPECT_EQ(serves.json()["spec"]["tied_head"], "on");
  for (const auto& [answer, says] : refused) {
    EXPECT_EQ(answer.status(), 400) << says;
    EXPECT_THAT(answer.json()["detail"], HasSubstr(says));
    EXPECT_EQ(answer.json()["errors"][0]["field"], "init_from");
  }
}

TEST_F(ResumeTest, CheckpointsThatOtherJobsHaveStillToReadAreNamedToTheirWriter) {
  with_checkpoints();
  const auto needed = [&] { return ask("POST", "/v1/jobs/j1/checkpoints", record_of(20)).json()["needed_steps"]; };
  const auto submitted = [&](Json request) { return ask("POST", "/v1/jobs", request).json()["id"].get<std::string>(); };
  const auto stopped = [&](const std::string& job) {
    ask("POST", "/v1/jobs/" + job + "/stop");
    return ask("GET", "/v1/jobs/" + job).json()["state"];
  };
  EXPECT_EQ(needed(), Json::array());
  const std::string begins = submitted({{"train_data_path", "/data/train.bin"}, {"init_from", "job:j1@10"}});
  EXPECT_EQ(needed(), Json::array({10}));
  const std::string serves = submitted({{"kind", "serve"}, {"init_from", "job:j1"}, {"tokenizer", "/data"}});
  EXPECT_EQ(needed(), Json::array({10, 20}));
  EXPECT_EQ(stopped(begins), "cancelled");
  const std::string goes_on = resumes_from("job:j1@10").json()["id"];
  EXPECT_EQ(needed(), Json::array({10, 20}));
  restart();
  EXPECT_EQ(needed(), Json::array({10, 20}));
  EXPECT_EQ(stopped(serves), "cancelled");
  EXPECT_EQ(stopped(goes_on), "cancelled");
  submitted({{"kind", "serve"}, {"init_from", "job:j1@10"}, {"follow", "on"}, {"tokenizer", "/data"}});
  EXPECT_EQ(needed(), Json::array()) << "that of the day is served, which no retention removes";
}

TEST_F(ResumeTest, AJobThatServesIsScaledBeyondTheNodesThatItWasSubmittedWith) {
  with_checkpoints();
  const std::string job =
      ask("POST", "/v1/jobs", {{"kind", "serve"}, {"init_from", "job:j1"}, {"tokenizer", "/data"}}).json()["id"];
  ASSERT_EQ(ask("POST", "/v1/jobs/" + job + "/scale", {{"nodes", 3}, {"max_nodes", 8}}).status(), 202);
  const Json wanted = ask("GET", "/v1/jobs/" + job).json()["wanted"];
  EXPECT_EQ(wanted["nodes"], 3);
  EXPECT_EQ(wanted["max_nodes"], 8);
  EXPECT_THAT(ask("POST", "/v1/jobs/" + job + "/scale", {{"nodes", 65537}}).json()["detail"],
              HasSubstr("must be a whole number from 1 to 65536, not 65537"));
}

TEST_F(ResumeTest, WeightsWithAHeadOfTheirOwnAreForSuchAJob) {
  with_checkpoints({{"tied_head", "off"}});
  Json request = {{"train_data_path", "/data/train.bin"}, {"init_from", "job:j1"}};
  EXPECT_EQ(ask("POST", "/v1/jobs", request).json()["spec"]["tied_head"], "off");
  EXPECT_EQ(
      ask("POST", "/v1/jobs", {{"kind", "serve"}, {"init_from", "job:j1"}, {"tokenizer", "/data"}}).json()["spec"]["tied_head"],
      "off");
  request["tied_head"] = "on";
  EXPECT_THAT(ask("POST", "/v1/jobs", request).json()["detail"],
              HasSubstr("its model has a head of its own, not one that is tied to the embedding: submit with --tied_head off"));
  EXPECT_THAT(resumes_from("20", {{"tied_head", "on"}}).json()["detail"],
              HasSubstr("its head is not tied to the embedding, and this job's is: submit with --tied_head off"));
}

TEST_F(ResumeTest, EqualSubmissionsWhoseCheckpointIsVerifiedAtTheSameTimeBecomeOneJob) {
  with_checkpoints();
  Json request = spec();
  request["resume_from"] = "latest";
  const auto first = send("POST", "/v1/jobs", request.dump(), {{"idempotency-key", "k1"}});
  const auto second = send("POST", "/v1/jobs", request.dump(), {{"idempotency-key", "k1"}});
  ASSERT_EQ(wait_for(first).status(), 201);
  ASSERT_EQ(wait_for(second).status(), 201);
  EXPECT_EQ(first->json()["id"], second->json()["id"]);
}

TEST_F(ResumeTest, AMissingCheckpointIsRefusedWithTheExistingOnes) {
  with_checkpoints();
  const std::pair<std::string, std::string> forms[] = {{"30", "steps 20 and 10"},        {"job:j7", "no job j7"},
                                                       {"job:j1@11", "steps 20 and 10"}, {"/nonexistent", "no folder"},
                                                       {"yesterday", "none of latest"},  {"job:j1@x", "job:ID@STEP"}};
  for (const auto& [form, says] : forms) {
    const Answer answer = resumes_from(form);
    EXPECT_EQ(answer.status(), 400) << form;
    EXPECT_THAT(answer.json()["detail"], HasSubstr(says)) << form;
    EXPECT_EQ(answer.json()["errors"][0]["field"], "resume_from");
  }
  EXPECT_THAT(resumes_from("latest", {{"name", "unheard-of"}}).json()["detail"], HasSubstr("unheard-of"));
  EXPECT_THAT(resumes_from("latest", {{"name", ""}}).json()["detail"], HasSubstr("job:ID"));
  EXPECT_THAT(resumes_from("20", {{"n_layer", 3}}).json()["detail"], HasSubstr("n_layer is 6 there and 3 here"));
  EXPECT_THAT(resumes_from("20", {{"total_steps", 15}}).json()["detail"], HasSubstr("beyond total_steps 15"));
  EXPECT_THAT(resumes_from("20", {{"tied_head", "off"}}).json()["detail"],
              HasSubstr("its head is tied to the embedding, and this job's is not: submit with --tied_head on"));
}

// In a folder that workers alone mount, say. Their tensors have the same names and shapes.
TEST_F(ResumeTest, AnotherTrainingIsRefusedAlsoWhereTheServiceDoesNotSeeTheCheckpoint) {
  begin_training();
  CheckpointRecord record = record_of(20);
  record.store = "/mnt/of-the-workers";
  ASSERT_EQ(ask("POST", "/v1/jobs/j1/checkpoints", record).status(), 201);
  EXPECT_THAT(resumes_from("job:j1", {{"biases", "off"}}).json()["detail"], HasSubstr("it was trained with biases on"));
  EXPECT_THAT(resumes_from("20", {{"sync_every", 8}}).json()["detail"], HasSubstr("it was trained without local steps"));
  EXPECT_THAT(resumes_from("latest", {{"biases", "off"}}).json()["detail"],
              HasSubstr("latest cannot be taken: step 20 of job j1: it was trained with biases on"));
  EXPECT_EQ(resumes_from("latest").status(), 201);
}

TEST_F(ResumeTest, AJobsFolderThatIsALinkLeadsNowhereElse) {
  with_checkpoints();
  const std::string shared = folder_ + "/shared";
  std::filesystem::create_directories(shared);
  std::filesystem::create_directory_symlink(folder_ + "/checkpoints/j1", shared + "/j1");
  const ResumePlan plan{{{StateSource::Kind::kCheckpoint, 20, "j1", shared, ""}}, false};
  const JobSpec wanted = job_spec_from_json(spec());
  EXPECT_TRUE(verify_resume(plan, wanted, folder_)) << "where folders may be anywhere";
  const auto resumed = verify_resume(plan, wanted, folder_, {shared});
  ASSERT_FALSE(resumed);
  EXPECT_THAT(resumed.error().detail, HasSubstr("--checkpoint_root"));
}

TEST_F(ResumeTest, CheckpointsBeforeTheScheduleBeginsAreNoneToFallBackTo) {
  with_checkpoints();
  const auto of_step = [](int64_t step) { return StateSource{StateSource::Kind::kCheckpoint, step, "j1", "", ""}; };
  const ResumePlan plan{{of_step(20), of_step(10)}, true};
  Json wanted = spec();
  wanted["resume_from"] = "latest";
  const auto fallbacks = [&] { return verify_resume(plan, job_spec_from_json(wanted), folder_).value().sources.size(); };
  EXPECT_EQ(fallbacks(), 2U);
  wanted["schedule_start"] = 15;
  EXPECT_EQ(fallbacks(), 1U);
}

TEST_F(ResumeTest, OnlyLatestFallsBackAndSaysSo) {
  with_checkpoints();
  damage(20);
  EXPECT_EQ(resumes_from("20").status(), 400);
  EXPECT_EQ(resumes_from("job:j1").status(), 400);
  const Answer answer = resumes_from("latest");
  ASSERT_EQ(answer.status(), 201);
  EXPECT_EQ(answer.json()["step"], 10);
  const Json events = ask("GET", "/v1/jobs/" + answer.json()["id"].get<std::string>() + "/events").json();
  EXPECT_THAT(events["events"][0]["message"], HasSubstr("falling back: step 20 of job j1"));
}

TEST_F(ServiceTest, AStopWithoutACheckpointTellsTheWorkersToWriteNone) {
  begin_training();
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/stop", {{"checkpoint", 0}}).status(), 400);
  EXPECT_EQ(ask("POST", "/v1/jobs/j1/stop", {{"checkpoint", false}}).status(), 202);
  const nlohmann::json told = ask("GET", "/v1/workers/w1/directive?incarnation=w1-1").json();
  EXPECT_EQ(told["kind"], "yield");
  EXPECT_EQ(told["checkpoint"], false);
}

}  // namespace
}  // namespace holdfast::rendezvous
