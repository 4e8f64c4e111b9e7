// Whether an object can be written to a place in S3, read back and removed there.
#include <chrono>

#include <fmt/format.h>

#include "ops/cli/doctor/doctor.h"
#include "storage/places/place.h"
#include "storage/s3/s3_store.h"

namespace holdfast::ops {

Check check_bucket(const std::string& text) {
  Check check{"bucket writable", Verdict::kFail, "", ""};
  const auto place = storage::parse_s3_place(text);
  if (!place) {
    check.seen = place.error();
    check.remedy = "name the place as a job's checkpoint_store names it";
    return check;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto tried = storage::try_s3_store(*place);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (!tried) {
    check.seen = tried.error().message;
    check.remedy = "workers write checkpoints there with the credentials of their own environment: mend it on each node";
    return check;
  }
  check.verdict = Verdict::kOk;
  check.seen = fmt::format("{}: an object was written, read back and removed in {:.0f} ms", *tried, took.count());
  return check;
}

}  // namespace holdfast::ops
