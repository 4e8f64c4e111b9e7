#include "worker/data_sets/chunk_server.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <charconv>
#include <optional>
#include <utility>

namespace holdfast::worker {
namespace {

using rendezvous::HttpRequest;
using rendezvous::HttpResponse;
using rendezvous::Reply;

constexpr size_t kReadingMax = 64;  // requests that wait for the disk
constexpr std::string_view kPrefix = "/v1/data/sets/";
constexpr const char* kKeyHeader = "holdfast-data-key";  // kDataKeyHeader, as the server has names

HttpResponse refusal(int status, const std::string& why) {
  HttpResponse response;
  response.status = status;
  response.content_type = "text/plain";
  response.body = why + "\n";
  return response;
}

HttpResponse bytes_answer(std::string bytes) {
  HttpResponse response;
  response.content_type = "application/octet-stream";
  response.body = std::move(bytes);
  return response;
}

bool same(const std::string& a, const std::string& b) {
  return !a.empty() && a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// "chunks/17" is 17.
std::optional<int64_t> chunk_of(std::string_view what) {
  constexpr std::string_view kChunks = "chunks/";
  if (!what.starts_with(kChunks)) return std::nullopt;
  int64_t chunk = -1;
  const char *begin = what.data() + kChunks.size(), *end = what.data() + what.size();
  const auto [rest, error] = std::from_chars(begin, end, chunk);
  if (error != std::errc() || rest != end || chunk < 0) return std::nullopt;
  return chunk;
}

rendezvous::HttpServerOptions server_options() {
  rendezvous::HttpServerOptions options;
  options.max_connections = 256;
  options.max_strangers = 256;
  options.max_body_bytes = 1 << 10;
  options.max_object_bytes = 1 << 10;
  options.max_answers_bytes = size_t{256} << 20;
  return options;
}

}  // namespace

ChunkServer::ChunkServer() : reading_(1, kReadingMax) {}

tl::expected<std::unique_ptr<ChunkServer>, std::string> ChunkServer::start(const std::string& host, PortRange ports) {
  std::unique_ptr<ChunkServer> server(new ChunkServer);
  const rendezvous::Handler handler = [raw = server.get()](HttpRequest request, Reply reply) { raw->answer(request, reply); };
  auto started = start_peer_server(host, ports, server_options(), [&](const rendezvous::HttpServerOptions& options) {
    return rendezvous::HttpServer::start(options, handler);
  });
  if (!started) return tl::unexpected("other workers cannot get data sets from here: " + started.error());
  server->server_ = *std::move(started);
  return server;
}

void ChunkServer::share(std::shared_ptr<CachedSet> set, const std::string& key) {
  const std::string digest = set->manifest().digest();
  const std::lock_guard lock(mutex_);
  sets_[digest] = {std::move(set), key};
}

void ChunkServer::stop_sharing(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  sets_.erase(digest);
}

void ChunkServer::answer(const HttpRequest& request, const Reply& reply) {
  const std::string_view path = request.path;
  if (!path.starts_with(kPrefix)) return reply(refusal(404, "there is nothing of that name"));
  const size_t slash = std::min(path.find('/', kPrefix.size()), path.size());
  const std::string digest(path.substr(kPrefix.size(), slash - kPrefix.size()));
  const std::string what(slash < path.size() ? path.substr(slash + 1) : std::string_view());
  Shared shared;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = sets_.find(digest); found != sets_.end()) shared = found->second;
  }
  if (!shared.set) return reply(refusal(404, "this worker has no such data set"));
  const auto key = request.headers.find(kKeyHeader);
  if (key == request.headers.end() || !same(key->second, shared.key))
    return reply(refusal(403, "the key is not the data set's: the service tells it"));
  const bool taken = reading_.post([this, set = shared.set, what, reply] { reply(read(*set, what)); },
                                   [reply](const std::string& why) { reply(refusal(500, why)); });
  if (!taken) reply(refusal(503, "too many chunks are being read: try again"));
}

HttpResponse ChunkServer::read(const CachedSet& set, const std::string& what) const {
  if (what == "have") return bytes_answer(rendezvous::chunk_bits(set.have()));
  const auto chunk = chunk_of(what);
  if (!chunk || *chunk >= set.chunks() || !set.has(*chunk)) return refusal(404, "this chunk is not here");
  auto bytes = set.get(*chunk);
  return bytes ? bytes_answer(*std::move(bytes)) : refusal(500, bytes.error());
}

}  // namespace holdfast::worker
