#include "storage/open_store.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "storage/failure.h"
#include "storage/file_system.h"
#include "storage/places/place.h"
#include "storage/s3/s3_store.h"

namespace holdfast::storage {
namespace {

namespace fs = std::filesystem;

bool is_below(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

bool is_below(const S3Place& place, const S3Place& root) {
  if (place.bucket != root.bucket || place.endpoint != root.endpoint) return false;
  return root.prefix.empty() || place.prefix == root.prefix || place.prefix.starts_with(root.prefix + "/");
}

Result<void> check_roots_in_s3(const std::string& text, const std::vector<std::string>& roots) {
  const auto place = parse_s3_place(text);
  if (!place) return fail(Error::Code::kRefused, "{}", place.error());
  for (const std::string& root : roots) {
    const auto allowed = is_s3(root) ? parse_s3_place(root) : tl::expected<S3Place, std::string>(tl::unexpect, "");
    if (allowed && is_below(*place, *allowed)) return {};
  }
  return fail(Error::Code::kRefused, "{} is outside of what --checkpoint_root allows here ({}): name a place below it", text,
              fmt::join(roots, ", "));
}

Result<std::unique_ptr<ObjectStore>> open_s3(const std::string& text, const OpenOptions& options) {
  if (auto checked = options.roots.empty() ? Result<void>{} : check_roots_in_s3(text, options.roots); !checked)
    return tl::unexpected(checked.error());
  const auto place = parse_s3_place(text);
  if (!place) return fail(Error::Code::kRefused, "checkpoint store {}", place.error());
  return open_s3_store(*place, options.missing, {.deadline = options.deadline, .stop = options.stop});
}

}  // namespace

Result<void> check_roots(const std::string& place, const std::vector<std::string>& roots) {
  if (roots.empty()) return {};
  if (is_s3(place)) return check_roots_in_s3(place, roots);
  std::error_code error;
  const fs::path full = fs::weakly_canonical(place, error);
  if (error) return fail(Error::Code::kRefused, "{}: cannot be resolved: {}", place, error.message());
  std::string allowed;
  for (const std::string& root : roots) {
    if (is_s3(root)) {
      allowed += (allowed.empty() ? "" : ", ") + root;
      continue;
    }
    const fs::path canonical = fs::weakly_canonical(root, error);
    if (!error && is_below(full, canonical)) return {};
    allowed += (allowed.empty() ? "" : ", ") + root;
  }
  return fail(Error::Code::kRefused,
              "{} leads to {}, which is outside of what --checkpoint_root allows here ({}): give a folder below it", place,
              full.string(), allowed);
}

namespace {

Result<std::unique_ptr<ObjectStore>> open_both(const std::string& place, const std::string& job, OpenOptions options) {
  const std::string copy = std::exchange(options.copy, "");
  auto first = open_store(place, job, options);
  if (!first && first.error().code == Error::Code::kRefused) return first;
  auto second = open_store(copy, job, options);
  if (!second) return first;  // it is no worse off than without a copy; or its error is the one that counts
  if (!first) {
    if (options.tell)
      options.tell(fmt::format("checkpoints are read from {}, for {}", (*second)->describe(), first.error().message));
    return second;
  }
  return join_places(*std::move(first), *std::move(second), options.tell);
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> open_store(const std::string& url_or_path, const std::string& job,
                                                const OpenOptions& options) {
  if (!options.copy.empty() && options.missing == MissingFolder::kFail) return open_both(url_or_path, job, options);
  if (!job.empty() && (!valid_key(job) || job.find('/') != std::string::npos))
    return fail(Error::Code::kRefused, "\"{}\" is not a job's id", job);
  if (url_or_path.empty()) {
    if (job.empty())
      return fail(Error::Code::kRefused,
                  "objects kept by the service belong to a job, and none is named: give job:ID or a folder");
    if (!options.service)
      return fail(Error::Code::kRefused, "objects of {} are kept by its service, which was not asked here", job);
    return options.service(job);
  }
  if (is_s3(url_or_path)) return open_s3(job.empty() ? url_or_path : place_below(url_or_path, job), options);
  constexpr std::string_view kScheme = "file://";
  const std::string path = url_or_path.starts_with(kScheme) ? url_or_path.substr(kScheme.size()) : url_or_path;
  if (!path.starts_with('/')) {
    return fail(
        Error::Code::kRefused,
        "checkpoint store \"{}\" is not supported: give an absolute folder that all workers share (/shared/checkpoints or "
        "file:///shared/checkpoints), a place in S3 (s3://bucket/prefix), or nothing to have the service keep checkpoints",
        url_or_path);
  }
  // The job's own folder: whoever may write in the shared one may have made a link of it.
  const std::string folder = job.empty() ? path : fmt::format("{}/{}", path, job);
  if (auto checked = check_roots(folder, options.roots); !checked) return tl::unexpected(checked.error());
  return open_directory_store(folder, options.missing, posix_file_system(Writing::kAtOnce, options.stop));
}

}  // namespace holdfast::storage
