// Secrets come from getrandom(2); token files are written whole before they have their name.
#include "rendezvous/secrets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>
#include <vector>

#include "rendezvous/protocol/ring_address.h"

namespace holdfast::rendezvous {
namespace {

// The name of a file is durable when its folder is.
bool sync_folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return false;
  const bool synced = fsync(file) == 0;
  close(file);
  return synced;
}

bool write_durably(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  unlink(temporary.c_str());
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(file) == 0;
  close(file);
  return written && rename(temporary.c_str(), path.c_str()) == 0 && sync_folder_of(path);
}

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

}  // namespace

std::string random_hex(size_t bytes) {
  std::vector<unsigned char> buffer(bytes);
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = getrandom(buffer.data() + done, bytes - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::system_error(errno, std::system_category(), "getrandom");
    done += static_cast<size_t>(got);
  }
  std::string text;
  for (const unsigned char byte : buffer) text += fmt::format("{:02x}", byte);
  return text;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

tl::expected<std::string, std::string> load_or_make_token(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    const std::string token = random_hex(32);
    if (!write_durably(path, fmt::format("{}\n", token))) {
      return tl::unexpected(fmt::format("cannot write the token file {}: {}; choose a --data_dir that can be written", path,
                                        describe_errno(errno)));
    }
    return token;
  }
  const std::string token = first_word(path);
  if (token.size() < 16) {
    return tl::unexpected(
        fmt::format("the token file {} does not hold a token (at least 16 characters expected, {} found): remove it, and a "
                    "new one is made",
                    path, token.size()));
  }
  return token;
}

}  // namespace holdfast::rendezvous
