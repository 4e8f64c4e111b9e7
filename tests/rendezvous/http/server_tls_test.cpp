// The server with TLS, with certificates that the test makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "tests/rendezvous/http/raw_client.h"
#include "tests/rendezvous/http/server_start.h"

namespace holdfast::rendezvous {
namespace {

using ::testing::HasSubstr;

using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;

// A self-signed certificate for 127.0.0.1.
void write_certificate(const std::string& certificate_file, const std::string& key_file, long serial) {
  const Key key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), &X509_free);
  X509* x = certificate.get();
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), serial);
  X509_gmtime_adj(X509_getm_notBefore(x), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x), 3600);
  X509_set_pubkey(x, key.get());
  X509_NAME* name = X509_get_subject_name(x);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("holdfast"), -1, -1, 0);
  X509_set_issuer_name(x, name);
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, x, x, nullptr, nullptr, 0);
  for (const auto& [id, value] :
       {std::pair{NID_subject_alt_name, "IP:127.0.0.1"}, std::pair{NID_basic_constraints, "CA:TRUE"}}) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value);
    X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(x, key.get(), EVP_sha256());
  FILE* file = std::fopen(certificate_file.c_str(), "w");
  PEM_write_X509(file, x);
  std::fclose(file);
  file = std::fopen(key_file.c_str(), "w");
  PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
}

class TlsTest : public testing::Test {
 protected:
  TlsTest() : folder_(testing::TempDir() + "holdfast-tls-" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    write_certificate(certificate(), key(), 1);
  }
  ~TlsTest() override {
    set_certificate_authority("");
    std::filesystem::remove_all(folder_);
  }
  std::string certificate() const { return folder_ + "/cert.pem"; }
  std::string key() const { return folder_ + "/key.pem"; }
  std::unique_ptr<HttpServer> serve() {
    HttpServerOptions options;
    options.tls = {certificate(), key()};
    return start(echo, options);
  }
  static std::string https(const HttpServer& server) { return "https://127.0.0.1:" + std::to_string(server.port()); }
  std::string start_error() {
    HttpServerOptions options;
    options.listen = "127.0.0.1:0";
    options.tls = {certificate(), key()};
    const auto server = HttpServer::start(options, echo);
    return server ? "" : server.error();
  }

  const std::string folder_;
};

TEST_F(TlsTest, AClientThatKnowsTheCertificateIsServed) {
  const auto server = serve();
  set_certificate_authority(certificate());
  HttpClient client(https(*server), "tok");
  EXPECT_EQ(client.request("POST", "/a", "body")->body, "POST /a body");
  std::string large(5 << 20, 'x');
  EXPECT_EQ(client.request("PUT", "/v1/jobs/j1/objects/k", large, "", std::chrono::seconds(60))->body.size(),
            large.size() + 26);
}

TEST_F(TlsTest, AClientThatDoesNotKnowTheCertificateIsToldWhatToDo) {
  const auto server = serve();
  const auto reply = HttpClient(https(*server), "tok").request("GET", "/a");
  ASSERT_FALSE(reply);
  EXPECT_TRUE(reply.error().unreachable);
  EXPECT_THAT(reply.error().message(), HasSubstr("--cacert"));
}

TEST_F(TlsTest, PlainHttpOnATlsPortIsRefusedWithTheReason) {
  const auto server = serve();
  RawClient client(server->port());
  client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.read_all(), HasSubstr("https://"));
}

TEST_F(TlsTest, TlsOnAPlainPortFailsWithTheReason) {
  const auto server = start(echo);
  const auto reply = HttpClient(https(*server), "tok").request("GET", "/a");
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().message(), HasSubstr("plain http"));
}

TEST_F(TlsTest, FilesThatCannotBeUsedAreNamed) {
  write_certificate(folder_ + "/other.pem", key(), 2);
  EXPECT_THAT(start_error(), AllOf(HasSubstr("key values mismatch"), HasSubstr("; expected the key of " + certificate())));
  std::filesystem::remove(key());
  EXPECT_THAT(start_error(), HasSubstr("key.pem"));
  std::filesystem::remove(certificate());
  EXPECT_THAT(start_error(), HasSubstr("cert.pem"));
}

TEST_F(TlsTest, ConnectionsWithoutAHandshakeDoNoHarm) {
  const auto server = serve();
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(std::make_unique<RawClient>(server->port()));
  set_certificate_authority(certificate());
  EXPECT_TRUE(HttpClient(https(*server), "tok").request("GET", "/a"));
}

TEST_F(TlsTest, StreamsAndTheirEnd) {
  HttpServerOptions options;
  options.tls = {certificate(), key()};
  const auto server = start(
      [](const HttpRequest&, const Reply& reply) {
        HttpResponse response;
        response.content_type = "text/event-stream";
        response.on_stream = [](const std::shared_ptr<EventStream>& stream) {
          stream->write("id: 1\ndata: a\n\n");
          stream->close();
        };
        reply(response);
      },
      options);
  set_certificate_authority(certificate());
  std::vector<std::string> events;
  HttpClient client(https(*server), "");
  EXPECT_TRUE(client.stream("/", "", [&](const std::string& id, const std::string&, const std::string& data) {
    events.push_back(id + data);
    return true;
  }));
  EXPECT_EQ(events, std::vector<std::string>{"1a"});
}

}  // namespace
}  // namespace holdfast::rendezvous
