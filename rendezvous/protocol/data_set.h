// A data set: files that the service and the workers keep in chunks, each named by its content.
//
// The manifest says what the files are: {"format": 1, "chunk_bytes": 4194304, "files": [{"name": "train.bin", "bytes": N,
// "chunks": [64 hex digits, …], "tokens": T, "largest_id": I, "tokens_digest": "T-…"}, …]}, the files by name. Chunk number i
// of a data set counts through its files in this order; each chunk but a file's last has chunk_bytes bytes. A chunk's name is
// the SHA-256 of its bytes, a data set's digest that of its manifest as compact JSON.
// Thread: any; everything here is pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::rendezvous {

inline constexpr int64_t kChunkBytes = 4 << 20;
inline constexpr int64_t kDataSetBytesMax = int64_t{1} << 42;  // 4 TiB: a million chunks, 70 MB of manifest
inline constexpr size_t kDataSetFilesMax = 64;
inline constexpr size_t kManifestBytesMax = size_t{100} << 20;

struct DataSetFile {
  std::string name{};  // is_data_name
  int64_t bytes = 0;
  std::vector<std::string> chunks{};
  // Of a token file (*.bin): how many ids, the largest, and TokenFile::digest; else 0 and "". The one who pushes says so; a
  // worker finds out when it has the file.
  int64_t tokens = 0, largest_id = 0;
  std::string tokens_digest{};

  int64_t first_id_byte() const { return bytes - 2 * tokens; }  // of a token file: behind llm.c's header, where there is one
  bool operator==(const DataSetFile&) const = default;
};

struct DataManifest {
  std::vector<DataSetFile> files;  // by name
  bool operator==(const DataManifest&) const = default;

  int64_t bytes() const;
  int64_t chunks() const;
  std::string digest() const;
  const DataSetFile* find(const std::string& file) const;  // nullptr: it has none of that name
};

// A chunk of a data set: where it lies, and its name.
struct ChunkPlace {
  const DataSetFile* file;
  int64_t offset, bytes;    // in the file
  const std::string* name;  // SHA-256
};
ChunkPlace chunk_at(const DataManifest& manifest, int64_t chunk);  // chunk: 0 to chunks() - 1
int64_t first_chunk_of(const DataManifest& manifest, const DataSetFile& file);

nlohmann::json to_json(const DataManifest& manifest);
// The error is a sentence that names the place: "files[1].chunks: has 3, but 9000000 bytes are 3 chunks".
tl::expected<DataManifest, std::string> data_manifest_from_json(const nlohmann::json& json);

// POST /v1/data/sets/{digest}/holders, from a worker that fetches a data set or has it, every second: who else has chunks of
// it, and which chunks the service gives it. The service asks for each chunk to be fetched from it once, and again when the
// worker that took it has not said within 10 s that it has it, and nobody else has it.
struct HoldersRequest {
  std::string worker, incarnation;
  std::string address;         // "10.0.0.2:41235": here other workers get chunks; "": nowhere
  std::string have;            // chunks that it has, as chunk_bits
  std::vector<int64_t> first;  // chunks that it needs first, in this order; at most kFirstMax
  int64_t room = 8;            // how many chunks it would take from the service now: 0 to kTakeMax
  std::string pin{};           // the key of its certificate there: "sha256//" and a digest in Base64, as curl has it
  bool operator==(const HoldersRequest&) const = default;
};
struct Holder {
  std::string worker, address;
  std::string have;   // when it last said so
  std::string pin{};  // as in its HoldersRequest; "": nobody can know who answers there
  bool operator==(const Holder&) const = default;
};
struct HoldersReply {
  std::vector<Holder> holders;  // the others that live, with an address
  std::vector<int64_t> take;    // chunks that this worker is to get from the service
  std::string key;              // holders give chunks of this data set to those who show it
  bool operator==(const HoldersReply&) const = default;
};
inline constexpr size_t kFirstMax = 1024;
inline constexpr int64_t kTakeMax = 64;

nlohmann::json to_json(const HoldersRequest& request);
nlohmann::json to_json(const HoldersReply& reply);
// Throw std::invalid_argument that names the field.
HoldersRequest holders_request_from_json(const nlohmann::json& json);
HoldersReply holders_reply_from_json(const nlohmann::json& json);

// Bits as hex digits, the first chunk in the highest bit of the first digit; the bits behind the last chunk are 0.
std::string chunk_bits(const std::vector<bool>& have);
// None: it is no text of so many bits.
tl::expected<std::vector<bool>, std::string> chunks_of_bits(const std::string& bits, int64_t chunks);

}  // namespace holdfast::rendezvous
