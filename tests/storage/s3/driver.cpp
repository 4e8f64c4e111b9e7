// The program that test_s3.py drives: calls to a store, one after the other, each answered with a line of JSON on its standard
// output.
//
//   storage_s3_driver PLACE COMMAND [ARGUMENT …] [, COMMAND …]
//     put KEY BYTES | get KEY | list PREFIX | remove KEY | open
//     write STEP SEED GENERATION | parts STEP SEED WRITER | make STEP SEED | holds STEP SEED | orphans | keep NUMBER
// BYTES are that many, made from the key. A state is State(SEED), in shards of a few kB. "," stands between commands.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "storage/open_store.h"
#include "tests/storage/checks.h"

using namespace holdfast::storage;
using holdfast::storage::testing::manifest_at;
using holdfast::storage::testing::manifest_of;
using holdfast::storage::testing::pieces_of;
using holdfast::storage::testing::State;

namespace {

using Words = std::vector<std::string>;
using nlohmann::json;

constexpr WriteOptions kShards{.shard_bytes = 4000, .threads = 2};
constexpr int64_t kWriters = 2;

const char* name_of(Error::Code code) {
  switch (code) {
    case Error::Code::kNotFound:
      return "not_found";
    case Error::Code::kCorrupt:
      return "corrupt";
    case Error::Code::kUnavailable:
      return "unavailable";
    case Error::Code::kNoSpace:
      return "no_space";
    case Error::Code::kRefused:
      return "refused";
  }
  return "";
}

json answer(const Error& error) {
  return {{"ok", false}, {"code", name_of(error.code)}, {"message", error.message}};
}
template <typename T>
json answer(const Result<T>& result) {
  return result ? json{{"ok", true}} : answer(result.error());
}

Bytes bytes_of(const std::string& key, size_t count) {
  Bytes bytes(count);
  uint32_t state = 12345;
  for (const char c : key) state = state * 31 + static_cast<unsigned char>(c);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

// Half of the state's pieces each.
std::vector<PieceBytes> share_of(const State& state, int64_t writer) {
  std::vector<PieceBytes> mine;
  for (const PieceBytes& piece : pieces_of(state)) {
    if (static_cast<int64_t>(piece.number) % kWriters == writer) mine.push_back(piece);
  }
  return mine;
}

json run(ObjectStore& store, const Words& words) {
  const std::string& verb = words.at(0);
  const auto number = [&](size_t i) { return std::stoll(words.at(i)); };
  if (verb == "open") return {{"ok", true}, {"place", store.describe()}};
  if (verb == "put") return answer(store.put(words.at(1), bytes_of(words.at(1), static_cast<size_t>(number(2)))));
  if (verb == "remove") return answer(store.remove(words.at(1)));
  if (verb == "get") {
    const auto found = store.get(words.at(1));
    if (!found) return answer(found);
    return {{"ok", true}, {"bytes", found->size()}, {"same", *found == bytes_of(words.at(1), found->size())}};
  }
  if (verb == "list") {
    const auto keys = store.list(words.size() > 1 ? words.at(1) : "");
    return keys ? json{{"ok", true}, {"keys", *keys}} : answer(keys);
  }
  if (verb == "orphans") {
    const auto removed = remove_orphans(store, {});
    return removed ? json{{"ok", true}, {"removed", removed->size()}} : answer(removed);
  }
  if (verb == "keep") {
    const auto steps = list_checkpoints(store);
    if (!steps || steps->empty()) return answer(steps);
    const Retention done = apply_retention(store, number(1), steps->back());
    return done.problem ? json{{"ok", true}, {"removed", done.removed}} : answer(done.problem);
  }
  const State state(static_cast<uint32_t>(number(2)));
  if (verb == "write") return answer(write_checkpoint(store, manifest_at(number(1), number(3)), state.tensors(), kShards));
  Manifest manifest = manifest_of(number(1), state);
  if (verb == "parts") return answer(write_part(store, manifest, {number(3), kWriters}, share_of(state, number(3)), kShards));
  if (verb == "make") {
    Parts parts;
    if (const auto found = find_parts(store, manifest, kWriters, parts); !found) return answer(found);
    return answer(put_manifest_of(store, manifest, parts));
  }
  if (verb == "holds") {
    const auto good = holdfast::storage::testing::holds(store, number(1), state);
    return {{"ok", static_cast<bool>(good)}, {"message", good.message()}};
  }
  throw std::invalid_argument(verb);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto say = [](const json& said) {
    std::printf("%s\n", said.dump().c_str());
    std::fflush(stdout);
  };
  const Words all(argv + 2, argv + argc);
  const bool reads = all[0] == "get" || all[0] == "list" || all[0] == "holds";
  const auto store = open_store(argv[1], "",
                                {.missing = reads ? MissingFolder::kFail : MissingFolder::kMake,
                                 .deadline = std::chrono::milliseconds(std::stoi(
                                     std::getenv("DRIVER_DEADLINE_MS") ? std::getenv("DRIVER_DEADLINE_MS") : "20000"))});
  if (!store) {
    json said = answer(store.error());
    said["opened"] = false;
    say(said);
    return 1;
  }
  Words words;
  for (size_t i = 0; i <= all.size(); ++i) {
    if (i < all.size() && all[i] != ",") {
      words.push_back(all[i]);
      continue;
    }
    const json said = run(**store, words);
    say(said);
    if (!said["ok"].get<bool>()) return 1;
    words.clear();
  }
}
