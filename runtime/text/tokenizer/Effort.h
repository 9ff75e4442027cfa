/// What a tokenizer may spend.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace cria {

/// A budget of work. A unit is about a nanosecond: each byte that is read,
/// compared or written costs some. One budget pays for everything that is done
/// for a text (or for a file, while it is loaded): added tokens, normalizers,
/// pre-tokenizers, regular expressions, model and decoder. So neither many
/// cheap steps nor one expensive step can take long. For one thread.
class Effort {
public:
  /// For encoding a text of this size: 4096 units a byte. A Llama tokenizer
  /// needs some hundreds.
  static Effort ofText(size_t bytes) { return Effort(base + 4096 * bytes); }
  /// For loading a file with this many values.
  static Effort ofFile(size_t values) { return Effort(base + 4096 * values); }
  /// For a decoder, which gets more with each token.
  static Effort ofDecoder() { return Effort(base); }
  void addToken() { left += 16384; }

  Effort(const Effort &) = delete;
  Effort &operator=(const Effort &) = delete;

  /// Takes `work` from the budget; false if there is less.
  bool spend(uint64_t work) {
    bool enough = work <= left;
    left = enough ? left - work : 0;
    return enough;
  }

  /// The error for a budget that is spent: "`what` takes too long".
  static Status tooLong(std::string_view what);

private:
  friend class Regex;
  struct Scratch; // of PCRE2

  /// Some 0.3 seconds.
  static constexpr uint64_t base = 1u << 28;

  explicit Effort(uint64_t work) : left(work) {}

  uint64_t left;
  std::shared_ptr<Scratch> scratch; // made by the first expression
};

} // namespace cria
