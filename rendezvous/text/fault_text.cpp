#include "rendezvous/text/fault_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace holdfast::rendezvous {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

FaultSetting setting_of(const std::string& text) {
  const size_t equals = text.find('=');
  return {text, text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1)};
}

FaultText fault_of(const std::string& text) {
  const auto parts = split(text, ':');
  const auto head = split(parts.front(), '@');
  FaultText fault{text, head[0], head.size() == 2 ? head[1] : "", {}};
  for (size_t i = 1; i < parts.size(); ++i) fault.settings.push_back(setting_of(parts[i]));
  return fault;
}

}  // namespace

std::string FaultText::error(const std::string& wrong, const std::string& header) const {
  return fmt::format("HOLDFAST_FAULT: in \"{}\": {} (see {})", text, wrong, header);
}

std::vector<FaultText> split_faults(const std::string& text) {
  std::vector<FaultText> faults;
  for (const std::string& part : split(text, ',')) faults.push_back(fault_of(part));
  return faults;
}

bool claim_once_file(const std::string& once_file) {
  if (once_file.empty()) return true;
  const int file = open(once_file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return false;
  close(file);
  return true;
}

}  // namespace holdfast::rendezvous
