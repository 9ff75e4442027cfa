/// Finds the first of several strings in bytes that come piece by piece, by the
/// algorithm of Knuth, Morris and Pratt: each byte is read once, and nothing of
/// the text is kept.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// Strings that end a text, and how far the text has come in each of them.
class StopStrings {
public:
  /// No strings.
  StopStrings() = default;
  /// INVALID_ARGUMENT for a string that is empty or not UTF-8.
  static Result<StopStrings> create(const std::vector<std::string> &strings);

  bool empty() const { return patterns.empty(); }
  /// Bytes of the longest string.
  size_t longest() const;

  /// Takes the bytes of a prompt: a string may begin in them, and none ends a
  /// text there.
  void takePrompt(std::string_view bytes);
  /// Takes the next bytes, up to the first that completes a string. Returns
  /// whether one does; it must not be called again after that.
  bool take(std::string_view bytes);
  /// Where the longest complete string begins, or else the longest beginning of
  /// a string at the end of the text: an index into the bytes after the prompt,
  /// negative in the prompt. Without either, the number of these bytes.
  int64_t begin() const;

private:
  struct Pattern {
    std::string text;
    std::vector<size_t> borders; // of text[0..i]: the longest part, other than
                                 // the whole, that it begins and ends with
    size_t matched = 0;          // bytes of `text` at the end of the input

    /// Whether `byte` completes the text.
    bool take(char byte);
  };

  std::vector<Pattern> patterns;
  int64_t taken = 0; // bytes after the prompt
};

} // namespace cria
