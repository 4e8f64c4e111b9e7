// Bytes that somebody reads while their owner goes on: whoever is about to change them, or to give them back, waits first.
//
// One reader at a time. Thread: the owner's.
#pragma once

#include <functional>
#include <utility>

namespace holdfast::model {

class Lent {
 public:
  Lent() = default;
  ~Lent() { await_reader(); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  // `wait` returns when the bytes are not read any more.
  void lend(std::function<void()> wait) {
    await_reader();
    wait_ = std::move(wait);
  }
  void await_reader() {
    if (const auto wait = std::exchange(wait_, nullptr)) wait();
  }

 private:
  std::function<void()> wait_;  // null: nobody reads
};

}  // namespace holdfast::model
