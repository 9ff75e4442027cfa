/// From ids back to text, one id at a time, up to a string that ends the text.
///
/// A stop string is searched for in the bytes of the tokens, which are known
/// before they are whole characters, and in which special tokens count: as
/// transformers does. What the caller sees is decoded text, without special
/// tokens. So an id is decoded only when no stop string can begin in it any
/// more; of the id in which one does begin, the bytes before it are decoded.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/Decoder.h"
#include "runtime/text/tokenizer/StopStrings.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace cria {

/// Decodes ids one by one. The concatenated results of the calls equal the
/// result of `decode` for all ids, up to a stop string; no call splits a
/// character.
class TextStream {
public:
  /// `tokenizer` must outlive the stream.
  explicit TextStream(const Tokenizer &tokenizer, bool special = false)
      : tokenizer(&tokenizer), state(tokenizer.decoder), special(special) {}

  /// From now on, the first of `strings` that occurs ends the text, and text
  /// that may become one is held back; none: nothing more is held back. A
  /// string may begin in `prompt`, the ids before. A text that a string has
  /// ended stays so. INVALID_ARGUMENT for a string that is empty or not UTF-8.
  Status stopAt(const std::vector<std::string> &strings,
                const std::vector<int32_t> &prompt = {});

  /// The text that `id` completes, maybe empty. Has the errors of `decode`.
  Result<std::string> push(int64_t id);
  /// Whether the last id has completed a stop string. The text then ends before
  /// the string, and later ids have none.
  bool stopped() const { return isStopped; }
  /// The rest; then the stream is as new, without stop strings.
  Result<std::string> finish();

private:
  /// An id whose text is held back.
  struct Held {
    int64_t id;
    std::string bytes; // of its token
    int64_t end;       // of these bytes, in the bytes after the prompt
  };

  const std::string *spelling(int64_t id) const;
  Result<std::string> decode(int64_t id);
  Result<std::string> decodePart(const Held &one, int64_t end);
  Result<std::string> release(int64_t end);

  const Tokenizer *tokenizer;
  DecoderState state;
  bool special;
  StopStrings stops;
  std::deque<Held> held;
  int64_t taken = 0; // bytes after the prompt
  bool isStopped = false;
};

} // namespace cria
