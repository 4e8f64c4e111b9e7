// A certificate that a process makes for itself and nobody signs: others know it by its key, of which somebody they trust tells
// them. It lives in memory and ends with the process.
#pragma once

#include <string>

namespace holdfast::worker {

struct OwnCertificate {
  std::string certificate, key;  // PEM
  std::string pin;               // "sha256//" and the SHA-256 of the public key in Base64, as curl has it
};

// Throws std::runtime_error where OpenSSL cannot. Takes less than a millisecond. Thread: any.
OwnCertificate make_own_certificate();

}  // namespace holdfast::worker
