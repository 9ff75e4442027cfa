/// Texts that know who wrote their bytes while normalizers change them.
#pragma once

#include "runtime/text/tokenizer/Origin.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace cria {

/// A text with the Origin of each byte.
struct TracedText {
  std::string bytes;
  std::string origins; // "" if nobody asks
};

/// Writes a changed text from the front to the back. New bytes have the
/// strictest origin of the bytes that they replace; bytes that stay keep
/// theirs; bytes that are inserted count as the template's.
class Rewriting {
public:
  explicit Rewriting(const TracedText &text) : text(text) {
    result.bytes.reserve(text.bytes.size());
  }

  /// Bytes `begin` to `end` of the text become `bytes`.
  void replace(size_t begin, size_t end, std::string_view bytes);
  void keep(size_t begin, size_t end) {
    replace(begin, end,
            std::string_view(text.bytes).substr(begin, end - begin));
  }
  void insert(std::string_view bytes) { replace(0, 0, bytes); }

  TracedText result;

private:
  const TracedText &text;
};

} // namespace cria
