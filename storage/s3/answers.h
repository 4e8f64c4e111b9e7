// The XML of an object store's answers: lists of keys, and errors.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::storage {

struct S3List {
  std::vector<std::string> keys;
  std::string next;  // the token that the list goes on with; "": it is whole
};
// Nothing: it is no list, or one that says that it goes on and not how.
std::optional<S3List> parse_s3_list(std::string_view xml);

// "": the answer does not say.
struct S3Problem {
  std::string code, message, region, server_time;
};
S3Problem parse_s3_problem(std::string_view xml);

}  // namespace holdfast::storage
