#include "storage/open_store.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "storage/failure.h"
#include "storage/file_system.h"

namespace holdfast::storage {
namespace {

namespace fs = std::filesystem;

bool is_below(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

}  // namespace

Result<void> check_roots(const std::string& folder, const std::vector<std::string>& roots) {
  if (roots.empty()) return {};
  std::error_code error;
  const fs::path full = fs::weakly_canonical(folder, error);
  if (error) return fail(Error::Code::kRefused, "{}: cannot be resolved: {}", folder, error.message());
  std::string allowed;
  for (const std::string& root : roots) {
    const fs::path canonical = fs::weakly_canonical(root, error);
    if (!error && is_below(full, canonical)) return {};
    allowed += (allowed.empty() ? "" : ", ") + root;
  }
  return fail(Error::Code::kRefused,
              "{} leads to {}, which is outside of what --checkpoint_root allows here ({}): give a folder below it", folder,
              full.string(), allowed);
}

Result<std::unique_ptr<ObjectStore>> open_store(const std::string& url_or_path, const std::string& job,
                                                const OpenOptions& options) {
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
  constexpr std::string_view kScheme = "file://";
  const std::string path = url_or_path.starts_with(kScheme) ? url_or_path.substr(kScheme.size()) : url_or_path;
  if (!path.starts_with('/')) {
    return fail(
        Error::Code::kRefused,
        "checkpoint store \"{}\" is not supported: give an absolute folder that all workers share (/shared/checkpoints or "
        "file:///shared/checkpoints), or nothing to have the service keep checkpoints",
        url_or_path);
  }
  // The job's own folder: whoever may write in the shared one may have made a link of it.
  const std::string folder = job.empty() ? path : fmt::format("{}/{}", path, job);
  if (auto checked = check_roots(folder, options.roots); !checked) return tl::unexpected(checked.error());
  return open_directory_store(folder, options.missing, posix_file_system(Writing::kAtOnce, options.stop));
}

}  // namespace holdfast::storage
