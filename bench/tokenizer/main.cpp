// bench_tokenizer TOKENIZER FILE [IDS]: how fast a text becomes ids, in one thread; the median of five passes as one line of
// JSON. With IDS the ids are written there, 4 bytes each, for a comparison with another program's.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/data/small_file.h"
#include "model/data/tokenizer.h"

namespace {

int fail(const std::string& why) {
  std::cerr << "bench_tokenizer: " << why << "\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) return fail("usage: bench_tokenizer TOKENIZER FILE [IDS]");
  const auto tokenizer = holdfast::model::Tokenizer::load(argv[1]);
  if (!tokenizer) return fail(tokenizer.error());
  const auto text = holdfast::model::read_small_file(argv[2]);
  if (!text) return fail(text.error());
  std::vector<int32_t> ids;
  std::vector<double> seconds;
  for (int pass = 0; pass < 5; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    ids = (*tokenizer)->encode(*text);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(seconds);
  if (argc == 4) {
    std::ofstream out(argv[3], std::ios::binary);
    out.write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof ids[0]));
    if (!out.flush()) return fail(std::string(argv[3]) + ": cannot be written");
  }
  std::cout << nlohmann::json{{"bytes", text->size()}, {"tokens", ids.size()}, {"seconds", seconds[2]}} << "\n";
  return 0;
}
