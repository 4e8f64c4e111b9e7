#include "storage/open_store.h"

namespace holdfast::storage {
namespace {

tl::unexpected<Error> refused(const std::string& message) {
  return tl::unexpected(Error{Error::Code::kRefused, message});
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> open_store(const std::string& url_or_path, const std::string& job,
                                                const std::string& server_url, const std::string& token) {
  if (!job.empty() && (!valid_key(job) || job.find('/') != std::string::npos))
    return refused("\"" + job + "\" is not a job's id");
  if (url_or_path.empty()) {
    if (job.empty()) return refused("objects kept by the service belong to a job, and none is named: give job:ID or a folder");
    return open_service_store(server_url, job, token);
  }
  constexpr std::string_view kScheme = "file://";
  const std::string path = url_or_path.starts_with(kScheme) ? url_or_path.substr(kScheme.size()) : url_or_path;
  if (!path.starts_with('/')) {
    return refused("checkpoint store \"" + url_or_path +
                   "\" is not supported: give an absolute folder that all workers share (/shared/checkpoints or "
                   "file:///shared/checkpoints), or nothing to have the service keep checkpoints");
  }
  return open_directory_store(job.empty() ? path : path + "/" + job);
}

}  // namespace holdfast::storage
