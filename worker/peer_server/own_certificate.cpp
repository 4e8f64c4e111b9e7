#include "worker/peer_server/own_certificate.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include <array>
#include <memory>
#include <stdexcept>

namespace holdfast::worker {
namespace {

template <auto Free>
struct FreeBy {
  template <typename T>
  void operator()(T* it) const {
    Free(it);
  }
};
using Key = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;
using Memory = std::unique_ptr<BIO, FreeBy<BIO_free_all>>;

constexpr long kSecondsOfAProcess = 10L * 365 * 24 * 3600, kSecondsOfClocksApart = 48 * 3600;

template <typename T>
T made(T it) {
  if (!it) throw std::runtime_error("OpenSSL cannot make a certificate");
  return it;
}

std::string text_of(const Memory& memory) {
  char* bytes = nullptr;
  const long length = BIO_get_mem_data(memory.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(length));
}

std::string pin_of(EVP_PKEY* key) {
  unsigned char* encoded = nullptr;
  const int length = i2d_PUBKEY(key, &encoded);
  made(length > 0);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(encoded, static_cast<size_t>(length), digest.data());
  OPENSSL_free(encoded);
  std::array<unsigned char, 4 * (SHA256_DIGEST_LENGTH + 2) / 3 + 1> base64;
  const int letters = EVP_EncodeBlock(base64.data(), digest.data(), digest.size());
  return "sha256//" + std::string(reinterpret_cast<const char*>(base64.data()), static_cast<size_t>(letters));
}

}  // namespace

OwnCertificate make_own_certificate() {
  const Key key = made(Key(EVP_EC_gen("P-256")));
  const Certificate certificate = made(Certificate(X509_new()));
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kSecondsOfClocksApart);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kSecondsOfAProcess);
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("holdfast-worker"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_set_pubkey(certificate.get(), key.get());
  made(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0);
  const Memory of_certificate = made(Memory(BIO_new(BIO_s_mem()))), of_key = made(Memory(BIO_new(BIO_s_mem())));
  made(PEM_write_bio_X509(of_certificate.get(), certificate.get()) == 1);
  made(PEM_write_bio_PrivateKey(of_key.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return {text_of(of_certificate), text_of(of_key), pin_of(key.get())};
}

}  // namespace holdfast::worker
