/// What a tokenizer.json does to text before its model sees it: normalizers and
/// pre-tokenizers.
#pragma once

#include "runtime/Json.h"
#include "runtime/TokenizerRegex.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// The longest text that is encoded at once.
constexpr size_t maxTextBytes = 64u << 20;

/// A part of a text on its way to ids.
struct Piece {
  std::string text;
  int32_t id;  // of an added token, which nothing changes any more; else -1
  bool atHead; // begins where the whole text does
};

/// What is searched for: an expression, or a text that stands for itself.
class Pattern {
public:
  /// Reads {"Regex": ...} or {"String": ...}.
  static Pattern read(const JsonCursor &pattern);
  /// An expression known to be right.
  static Pattern regex(const char *expression);
  /// A text that stands for itself.
  static Pattern text(std::string literal);

  /// Cuts `text` into matches and the rest.
  Status find(std::string_view text, Deadline deadline,
              std::vector<Span> &spans) const;

private:
  std::string literal;
  std::optional<Regex> expression;
};

/// One of the normalizers "Prepend" and "Replace"; a "Sequence" is a list.
class Normalizer {
public:
  /// Appends the steps of the member "normalizer".
  static void read(const JsonCursor &normalizer,
                   std::vector<Normalizer> &steps);

  Status apply(std::string &text, Deadline deadline) const;

private:
  std::optional<Pattern> pattern; // what to replace; none: prepend
  std::string content;
};

/// One of the pre-tokenizers "Split", "Digits", "ByteLevel" and "Metaspace", as
/// what they are made of: a prefix, a replacement, a split, bytes spelled out.
class PreTokenizer {
public:
  /// Appends the steps of the member "pre_tokenizer".
  static void read(const JsonCursor &pre, std::vector<PreTokenizer> &steps);

  /// Cuts `piece` into `pieces`.
  Status apply(Piece piece, Deadline deadline,
               std::vector<Piece> &pieces) const;

private:
  /// What becomes of a match.
  enum class Behavior {
    Isolated,
    Removed,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous,
    None /* no split */
  };
  enum class Prefix { Never, First, Always };

  static PreTokenizer readSplit(const JsonCursor &pre);
  static PreTokenizer readByteLevel(const JsonCursor &pre);
  static PreTokenizer readMetaspace(const JsonCursor &pre);
  static Behavior readBehavior(const JsonCursor &behavior);
  static std::vector<Span> join(const std::vector<Span> &spans,
                                Behavior behavior);

  std::string space = " "; // what a space becomes
  Prefix prefix = Prefix::Never;
  Behavior behavior = Behavior::None;
  bool invert = false;
  bool spell = false; // bytes as characters
  std::optional<Pattern> pattern;
};

} // namespace cria
