#include "storage/open_store.h"

#include "storage/failure.h"

namespace holdfast::storage {
namespace {

constexpr auto kRefused = Error::Code::kRefused;

}  // namespace

Result<std::unique_ptr<ObjectStore>> open_store(const std::string& url_or_path, const std::string& job,
                                                const std::string& server_url, const std::string& token,
                                                const OpenOptions& options) {
  if (!job.empty() && (!valid_key(job) || job.find('/') != std::string::npos))
    return fail(kRefused, "\"{}\" is not a job's id", job);
  if (url_or_path.empty()) {
    if (job.empty())
      return fail(kRefused, "objects kept by the service belong to a job, and none is named: give job:ID or a folder");
    return open_service_store(server_url, job, token, {.identity = options.identity});
  }
  constexpr std::string_view kScheme = "file://";
  const std::string path = url_or_path.starts_with(kScheme) ? url_or_path.substr(kScheme.size()) : url_or_path;
  if (!path.starts_with('/')) {
    return fail(
        kRefused,
        "checkpoint store \"{}\" is not supported: give an absolute folder that all workers share (/shared/checkpoints or "
        "file:///shared/checkpoints), or nothing to have the service keep checkpoints",
        url_or_path);
  }
  return open_directory_store(job.empty() ? path : path + "/" + job, options.missing);
}

}  // namespace holdfast::storage
