#include "rendezvous/data_dir/restored_mark.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "rendezvous/store/job_store.h"
#include "rendezvous/text/errno_text.h"
#include "storage/file_system.h"

namespace holdfast::rendezvous {

std::string restored_mark(const std::string& data_dir) {
  return data_dir + "/holdfast.restored";
}

void set_restored_mark(const std::string& data_dir) {
  const std::string path = restored_mark(data_dir);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) throw StoreError(fmt::format("cannot make {}: {}", path, describe_errno(errno)));
  close(file);
  if (const auto synced = storage::posix_file_system()->sync_directory(data_dir); !synced)
    throw StoreError(fmt::format("cannot sync the folder {}: {}", data_dir, describe_errno(synced.error())));
}

bool has_restored_mark(const std::string& data_dir) {
  std::error_code ignored;
  return std::filesystem::exists(restored_mark(data_dir), ignored);
}

void remove_restored_mark(const std::string& data_dir) {
  std::error_code error;
  std::filesystem::remove(restored_mark(data_dir), error);
  if (error) spdlog::warn("cannot remove {}: {}", restored_mark(data_dir), error.message());
}

}  // namespace holdfast::rendezvous
