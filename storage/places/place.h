// The places of checkpoints as people write them (--checkpoint_store, resume_from, `holdfast ckpt`), taken apart.
//
//   /shared/ckpt, file:///shared/ckpt
//   s3://bucket/prefix?endpoint=https://host:9000&region=us-east-1&style=path
//
// Promises: a place says where objects are and never who may read them, so it may be stored, shown and logged. Refuses a place
// with a user, a password or a key in it, and whatever in it is not understood. Errors are sentences that name the place, but
// not what may be a secret in it. Thread: any; everything here is pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace holdfast::storage {

struct S3Place {
  std::string bucket;
  std::string prefix;       // of all keys, without a slash at its ends: "a/b"; "": none
  std::string endpoint;     // "https://host:9000", a path behind it or not; "": as the environment says, else Amazon's
  std::string region;       // "": as the environment says
  bool host_style = false;  // "bucket.host" instead of "host/bucket"; only with an endpoint
  bool operator==(const S3Place&) const = default;
};

bool is_s3(std::string_view place);
tl::expected<S3Place, std::string> parse_s3_place(std::string_view place);
std::string to_text(const S3Place& place);

// A job's own place: "/shared/ckpt" -> "/shared/ckpt/j1"; "s3://bucket/a?region=x" -> "s3://bucket/a/j1?region=x".
std::string place_below(const std::string& place, const std::string& name);

// Takes a step off the end of a place: ".../step-0000000060", or, with `at_sign`, "...@60", which in a place in S3 may stand
// before its "?" too. Nothing: none is named.
std::pair<std::string, std::optional<int64_t>> split_step(const std::string& place, bool at_sign);

}  // namespace holdfast::storage
