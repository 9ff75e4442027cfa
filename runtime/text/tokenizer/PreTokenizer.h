/// How a tokenizer.json cuts normalized text into words for its model.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/ComponentCount.h"
#include "runtime/text/tokenizer/Pattern.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// A part of a text on its way to ids.
struct Piece {
  std::string_view text;
  bool atHead;     // begins where the whole text does
  int32_t id = -1; // of an added token, which nothing changes any more
  std::string_view origins = {}; // of the bytes, see TracedText

  /// Bytes `begin` to `end` of it.
  Piece part(size_t begin, size_t end, int32_t id) const {
    return {text.substr(begin, end - begin), atHead && begin == 0, id,
            origins.empty() ? origins : origins.substr(begin, end - begin)};
  }
};

/// Takes pieces one by one. A result that is not OK ends the work.
using PieceSink = FunctionRef<Status(Piece)>;

/// One pre-tokenizer, described by its parts: a prefix, a replacement of
/// spaces, a split, bytes spelled out.
class PreTokenizer {
public:
  /// Appends the steps of the member "pre_tokenizer".
  static void read(const JsonCursor &pre, ComponentCount &count,
                   std::vector<PreTokenizer> &steps);

  /// Cuts `piece`, which is not an added token, into words. Each word lives
  /// until its sink returns.
  Status apply(Piece piece, Effort &effort, PieceSink sink) const;

private:
  /// What happens to a match.
  enum class Behavior {
    Isolated,
    Removed,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous
  };
  enum class Prefix { Never, First, Always };

  PreTokenizer() = default;
  PreTokenizer(Pattern pattern, Behavior behavior, bool invert = false)
      : pattern(std::move(pattern)), behavior(behavior), invert(invert) {}

  static PreTokenizer readSplit(const JsonCursor &pre);
  static PreTokenizer readByteLevel(const JsonCursor &pre);
  static PreTokenizer readMetaspace(const JsonCursor &pre);
  static PreTokenizer readDigits(const JsonCursor &pre);
  static PreTokenizer readPunctuation(const JsonCursor &pre);
  static Behavior readBehavior(const JsonCursor &behavior);
  static const std::vector<PreTokenizer> *plain(const std::string &type);
  Status join(std::string_view text, Effort &effort, SpanSink sink) const;

  std::optional<Pattern> pattern; // none: no split
  Behavior behavior = Behavior::Isolated;
  bool invert = false;
  std::string space = " "; // what a space becomes
  Prefix prefix = Prefix::Never;
  bool spell = false; // bytes as characters
};

} // namespace cria
