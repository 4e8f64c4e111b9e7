// A file that takes its name only when it is whole and its bytes are durable.
#include <cerrno>

#include "storage/file_system.h"

namespace holdfast::storage {
namespace {

Step write_file(FileSystem& files, const std::string& path, std::span<const std::byte> bytes, Readers readers) {
  const IoResult<int> file = files.create(path, readers);
  if (!file) return step(file, "make " + path);
  Step result;
  while (result && !bytes.empty()) {
    const IoResult<size_t> written = files.write(*file, bytes);
    result = step(written, "write " + path);
    if (written) bytes = bytes.subspan(*written);
  }
  if (result) result = step(files.sync(*file), "fsync " + path);
  const Step closed = step(files.close(*file), "close " + path);
  return result ? closed : result;
}

}  // namespace

Step write_and_rename(FileSystem& files, const std::string& temporary, const std::string& path,
                      std::span<const std::byte> bytes, Readers readers) {
  Step result = write_file(files, temporary, bytes, readers);
  if (!result && result.error().error == EEXIST) return result;
  if (result) result = step(files.rename(temporary, path), "rename " + temporary);
  if (!result) static_cast<void>(files.unlink(temporary));
  return result;
}

}  // namespace holdfast::storage
