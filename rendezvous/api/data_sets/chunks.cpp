#include "rendezvous/api/data_sets/chunks.h"

#include <fmt/format.h>

#include <memory>
#include <span>
#include <utility>

#include "rendezvous/text/sha256.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;
using storage::Error;

Outcome<std::vector<std::string>> read_names(const HttpRequest& request) {
  const auto body = read_json(request);
  if (!body) return tl::unexpected(body.error());
  const auto found = body->is_object() ? body->find("chunks") : body->end();
  const bool is_list = body->is_object() && found != body->end() && found->is_array();
  if (!is_list || found->size() > DataChunksApi::kNamesMax) {
    return tl::unexpected(
        bad_field("chunks", fmt::format("must be an array of at most {} names of chunks", DataChunksApi::kNamesMax)));
  }
  std::vector<std::string> names;
  for (const Json& name : *found) {
    if (!name.is_string() || !is_sha256_hex(name.get_ref<const std::string&>()))
      return tl::unexpected(bad_field(
          "chunks", fmt::format("{} is no SHA-256: expected 64 hex digits, the letters small", json_text(name).substr(0, 80))));
    names.push_back(name.get<std::string>());
  }
  return names;
}

// False: the path names no chunk, and the call is answered.
bool names_chunk(const Call& call) {
  const std::string& name = call.arguments[0];
  if (is_sha256_hex(name)) return true;
  call.answer(bad_field(
      "sha256",
      fmt::format("\"{}\" is no name of a chunk: expected its SHA-256, 64 hex digits, the letters small", name.substr(0, 80))));
  return false;
}

Problem no_such_chunk(const std::string& name) {
  return problem(404, "not_found",
                 fmt::format("the chunk {} is not here: `holdfast data push` of the files that it is from brings it", name));
}

Problem later(const std::string& why) {
  return problem(503, "unavailable", why + ": try again");
}

std::string gib(int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

}  // namespace

void DataChunksApi::post_missing(Call& call) {
  const auto names = read_names(call.request);
  if (!names) return call.answer(names.error());
  ChunkShelf& chunks = keeper_.catalogue().chunks();
  Json missing = Json::array();
  for (const std::string& name : *names) {
    chunks.touch(name, keeper_.turn().clock.wall_ms());
    if (!chunks.has(name)) missing.push_back(name);
  }
  call.answer(json_answer(200, {{"missing", std::move(missing)}}));
}

Problem DataChunksApi::no_room(int64_t bytes) const {
  const ChunkShelf& chunks = keeper_.catalogue().chunks();
  const int64_t unneeded = chunks.unneeded_bytes();
  const std::string left_over =
      unneeded == 0
          ? ""
          : fmt::format(" {} of it are of pushes that have not ended: they go a day after the last try.", gib(unneeded));
  return problem(
      507, "no_space",
      fmt::format("data sets may have {} here (--data_limit_gib), and have {}: there is no room for {} bytes more.{} "
                  "Remove a data set (`holdfast data ls`, `holdfast data rm NAME`), or start the service with a "
                  "higher --data_limit_gib; the push then goes on where it was",
                  gib(keeper_.limit_bytes()), gib(chunks.bytes()), bytes, left_over));
}

void DataChunksApi::put_chunk(Call& call) {
  if (!names_chunk(call)) return;
  const std::string name = call.arguments[0];
  const auto body = std::make_shared<const std::string>(std::move(call.request.body));
  const auto bytes = static_cast<int64_t>(body->size());
  if (bytes == 0) return call.answer(bad_field("", "the body is empty: expected the chunk's bytes"));
  ChunkShelf& chunks = keeper_.catalogue().chunks();
  const auto begun = chunks.begin_put(name, bytes, keeper_.limit_bytes());
  if (begun == ChunkShelf::Put::kThere) return call.answer(empty_answer());
  if (begun == ChunkShelf::Put::kGoing) return call.answer(later(fmt::format("the chunk {} is just being removed", name)));
  if (begun == ChunkShelf::Put::kNoRoom) {
    keeper_.drop_stale();
    return call.answer(keeper_.is_making_room() ? later("chunks that no data set needs are just being removed")
                                                : no_room(bytes));
  }
  keeper_.on_chunks<bool>(
      [name, body](DataSetFiles& files) -> storage::Result<bool> {
        const auto content = std::as_bytes(std::span(*body));
        if (sha256_hex(content) != name) return false;
        if (const auto put = files.put_chunk(name, content); !put) return tl::unexpected(put.error());
        return true;
      },
      [this, call, name, bytes](const storage::Result<bool>& written) {
        const bool kept = written && *written;
        keeper_.catalogue().chunks().put_ended(name, kept, keeper_.turn().clock.wall_ms());
        if (kept) return call.answer(empty_answer());
        if (!written) return call.answer(storage_problem(written.error()));
        call.answer(problem(
            400, "altered_on_the_way",
            fmt::format("the {} bytes that came do not have the SHA-256 {}: nothing was kept, send them again", bytes, name)));
      });
}

void DataChunksApi::note_lost(const std::string& name, const storage::Error& why) {
  if (!keeper_.catalogue().chunks().has(name)) return;  // removed while it was read, or told of before
  keeper_.catalogue().chunks().lost(name);
  keeper_.turn().state.journal().record({"data_chunk_lost", why.message});
}

void DataChunksApi::get_chunk(Call& call) {
  if (!names_chunk(call)) return;
  const std::string name = call.arguments[0];
  if (!keeper_.catalogue().chunks().has(name)) return call.answer(no_such_chunk(name));
  keeper_.on_chunks<std::string>(
      [name](DataSetFiles& files) -> storage::Result<std::string> {
        const auto bytes = files.get_chunk(name);
        if (!bytes) return tl::unexpected(bytes.error());
        return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
      },
      [this, call, name](storage::Result<std::string> bytes) {
        if (bytes) {
          HttpResponse response;
          response.content_type = "application/octet-stream";
          response.body = *std::move(bytes);
          return call.answer(std::move(response));
        }
        const bool is_gone = bytes.error().code == Error::Code::kNotFound;
        if (is_gone || bytes.error().code == Error::Code::kCorrupt) note_lost(name, bytes.error());
        call.answer(is_gone ? no_such_chunk(name) : storage_problem(bytes.error()));
      });
}

}  // namespace holdfast::rendezvous
