#include "storage/s3/s3_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <thread>

#include "storage/checksum.h"
#include "storage/failure.h"
#include "storage/s3/answers.h"
#include "storage/s3/requests.h"

namespace holdfast::storage {
namespace {

using Call = S3Bucket::Call;

constexpr const char* kChecksumHeader = "x-amz-meta-xxh3-128";
constexpr int kReadsOfAltered = 3, kLooksAtPut = 5;
constexpr int kListPagesMax = 10'000;
constexpr size_t kListBytesMax = 16 << 20;  // of a page, which has at most a thousand keys of a thousand bytes

// A shard's key has the checksum of its bytes in it.
bool is_named_after_contents(const std::string& key) {
  return key.ends_with(".hfs");
}

class S3Store : public ObjectStore {
 public:
  S3Store(const S3Place& place, const S3Options& options) : bucket_(place, options) {}

  Result<void> open(MissingFolder missing);

  Result<void> put(const std::string& key, std::span<const std::byte> bytes) override;
  Result<Bytes> get(const std::string& key) override;
  Result<std::vector<std::string>> list(const std::string& prefix) override;
  Result<void> remove(const std::string& key) override;
  // A put is one request, so nothing is ever unfinished.
  Result<std::vector<std::string>> remove_unfinished(std::span<const std::string>) override {
    return std::vector<std::string>{};
  }
  std::string describe() const override { return bucket_.describe(); }

 private:
  std::string full(const std::string& key) const { return bucket_.prefix() + key; }
  tl::expected<S3Answer, S3Failure> list_page(const std::string& prefix, const std::string& token, const char* keys_max,
                                              int tries = 0);
  // Whether an object of this size and checksum is there. An error is no: the put that follows will say it.
  bool is_there(const std::string& key, size_t bytes, const std::string& checksum);
  Result<void> read_back(const std::string& key, std::span<const std::byte> bytes);

  S3Bucket bucket_;
};

tl::expected<S3Answer, S3Failure> S3Store::list_page(const std::string& prefix, const std::string& token, const char* keys_max,
                                                     int tries) {
  Call call{.what = "cannot list", .method = "GET", .bytes_max = kListBytesMax};
  if (!token.empty()) call.query.emplace_back("continuation-token", token);
  call.query.emplace_back("list-type", "2");
  call.query.emplace_back("max-keys", keys_max);
  call.query.emplace_back("prefix", prefix);
  return bucket_.call(call, tries);
}

Result<void> S3Store::open(MissingFolder missing) {
  if (auto credentials = bucket_.credentials(); !credentials)
    return fail(credentials.error().code, "{}: {}", describe(), credentials.error().message);
  const auto answer = list_page(bucket_.prefix(), "", "1", 1);
  // No answer, or that of a busy server, says nothing of the bucket.
  if (!answer) return answer.error().may_pass ? Result<void>{} : Result<void>(tl::unexpected(answer.error().error));
  const auto page = parse_s3_list(answer->text());
  if (!page)
    return fail(Error::Code::kRefused, "{}: the answer is no list of objects, it begins with \"{}\": is an S3 server there?",
                describe(), answer->text().substr(0, 60));
  if (missing == MissingFolder::kFail && page->keys.empty())
    return fail(Error::Code::kNotFound, "there is no object in {}", describe());
  return {};
}

bool S3Store::is_there(const std::string& key, size_t bytes, const std::string& checksum) {
  const auto answer = bucket_.call({.what = "cannot look for " + key, .method = "HEAD", .key = full(key)}, 1);
  return answer && answer->header("content-length") == std::to_string(bytes) && answer->header(kChecksumHeader) == checksum;
}

// A manifest makes a checkpoint, so it is not called durable on the word of an answer alone. A server that has
// copies of an object may read an older one back for a moment.
Result<void> S3Store::read_back(const std::string& key, std::span<const std::byte> bytes) {
  for (int look = 1;; ++look) {
    const auto found = get(key);
    if (found && std::ranges::equal(*found, bytes)) return {};
    const bool may_come = found || found.error().code == Error::Code::kNotFound || found.error().code == Error::Code::kCorrupt;
    if (!may_come) return tl::unexpected(found.error());
    if (look == kLooksAtPut)
      return fail(Error::Code::kUnavailable,
                  "cannot write {} in {}: the server took it and gives back {}: does somebody else write there?", key,
                  describe(), found ? fmt::format("{} other bytes", found->size()) : found.error().message);
    std::this_thread::sleep_for(std::chrono::milliseconds(50 << look));
  }
}

Result<void> S3Store::put(const std::string& key, std::span<const std::byte> bytes) {
  if (auto valid = insist_on_key(key, describe()); !valid) return valid;
  if (bytes.size() > static_cast<size_t>(kS3ObjectBytesMax)) {
    return fail(Error::Code::kRefused, "cannot write {} in {}: {} bytes are more than an object may have there ({})", key,
                describe(), bytes.size(), kS3ObjectBytesMax);
  }
  const std::string checksum = checksum_hex(bytes);
  const bool is_shard = is_named_after_contents(key);
  if (is_shard && is_there(key, bytes.size(), checksum)) return {};
  const auto answer = bucket_.call({.what = fmt::format("cannot write {} ({} bytes)", key, bytes.size()),
                                    .method = "PUT",
                                    .key = full(key),
                                    .body = bytes,
                                    .headers = {fmt::format("{}: {}", kChecksumHeader, checksum)}});
  if (!answer) {
    Error error = answer.error().error;
    if (error.code == Error::Code::kNotFound) error.code = Error::Code::kUnavailable;  // the bucket is missing, not the object
    return tl::unexpected(std::move(error));
  }
  return is_shard ? Result<void>{} : read_back(key, bytes);
}

Result<Bytes> S3Store::get(const std::string& key) {
  if (auto valid = insist_on_key(key, describe()); !valid) return tl::unexpected(valid.error());
  for (int read = 1;; ++read) {
    auto answer = bucket_.call({.what = "cannot read " + key, .method = "GET", .key = full(key)});
    if (!answer) return tl::unexpected(std::move(answer.error().error));
    // Plain http has nothing but TCP's checksum of 16 bits against bytes that change on their way: they are read again.
    const std::string expected = answer->header(kChecksumHeader);
    if (expected.empty() || expected == checksum_hex(answer->body)) return std::move(answer->body);
    if (read == kReadsOfAltered)
      return fail(Error::Code::kCorrupt, "{} in {}: its checksum is {}, and was {} when it was put: it was altered there", key,
                  describe(), checksum_hex(answer->body), expected);
  }
}

Result<std::vector<std::string>> S3Store::list(const std::string& prefix) {
  std::vector<std::string> keys;
  std::string token;
  for (int pages = 0; pages < kListPagesMax; ++pages) {
    const auto answer = list_page(full(prefix), token, "1000");
    if (!answer) return tl::unexpected(answer.error().error);
    auto page = parse_s3_list(answer->text());
    if (!page)
      return fail(Error::Code::kUnavailable, "cannot list in {}: the answer is no list of objects, it begins with \"{}\"",
                  describe(), answer->text().substr(0, 60));
    for (const std::string& key : page->keys) {
      if (!key.starts_with(full(prefix))) continue;
      // The names of others' objects may be anything.
      if (std::string own = key.substr(bucket_.prefix().size()); valid_key(own)) keys.push_back(std::move(own));
    }
    if (!token.empty() && page->next == token)
      return fail(Error::Code::kUnavailable, "cannot list in {}: the list names the page that it is as the next", describe());
    token = page->next;
    if (token.empty()) break;
  }
  if (!token.empty())
    return fail(Error::Code::kUnavailable, "cannot list in {}: the list does not end after {} pages", describe(),
                kListPagesMax);
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

Result<void> S3Store::remove(const std::string& key) {
  if (auto valid = insist_on_key(key, describe()); !valid) return valid;
  const auto answer = bucket_.call({.what = "cannot remove " + key, .method = "DELETE", .key = full(key)});
  if (answer) return {};
  if (answer.error().status == 404 && answer.error().code != "NoSuchBucket") return {};
  return tl::unexpected(answer.error().error);
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> open_s3_store(const S3Place& place, MissingFolder missing, const S3Options& options) {
  auto store = std::make_unique<S3Store>(place, options);
  if (auto opened = store->open(missing); !opened) return tl::unexpected(opened.error());
  return store;
}

Result<std::string> try_s3_store(const S3Place& place) {
  S3Store store(place, {.deadline = std::chrono::seconds(10)});
  std::random_device random;
  const std::string key = fmt::format("probe/doctor-{:08x}{:08x}", random(), random());
  Result<void> done = store.put(key, std::as_bytes(std::span(key)));
  if (done) done = store.remove(key);
  if (!done) return tl::unexpected(done.error());
  return store.describe();
}

}  // namespace holdfast::storage
