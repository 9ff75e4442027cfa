/// From tokens back to text, as the member "decoder" of a tokenizer.json says,
/// one token at a time.
#pragma once

#include "runtime/base/Json.h"

#include "runtime/text/tokenizer/ComponentCount.h"
#include "runtime/text/tokenizer/Effort.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cria {

/// A step of the decoder. Steps after a step that fuses all tokens see one
/// text.
struct DecoderStep {
  enum class Kind {
    Replace,      // `pattern` by `content` in each token
    ByteFallback, // runs of tokens "<0xE5>" are the bytes of UTF-8
    Fuse,         // does nothing: the output is concatenated anyway
    Strip,        // up to `count` characters `pattern` at the start
    ByteLevel,    // tokens spell bytes
    Metaspace,    // `pattern` is a space, except in the first token
    Join,         // a space between tokens, if there is no decoder
    WordPiece     // like Join, but not before a token that begins with
                  // `pattern`
  };
  Kind kind;
  std::string pattern;
  std::string content;
  uint64_t count = 0;
  bool fused = false;  // comes after a step that fuses
  bool prefix = false; // Metaspace: the first token's mark is not a space
  bool tidy = false;   // WordPiece: no space before marks and contractions
};

/// Reads the member "decoder"; `steps` stays as it is on an error.
void readDecoder(const JsonCursor &decoder, ComponentCount &count,
                 std::vector<DecoderStep> &steps);

/// Whether tokens spell bytes, so that a part of a token is one as well.
bool spellsBytes(const std::vector<DecoderStep> &steps);

/// The bytes that `token` adds to a text that has begun; maybe a part of a
/// character.
Result<std::string> bytesOfToken(const std::vector<DecoderStep> &steps,
                                 const std::string &token);

/// The tokens of one text, pushed one after another. What the calls return,
/// concatenated, is Hugging Face's decoding of all of them; each is whole UTF-8
/// characters. A run of byte tokens comes out when it ends: only then is it
/// known whether it is UTF-8 as a whole or, byte for byte, U+FFFD.
class DecoderState {
public:
  /// `steps` must outlive the state.
  explicit DecoderState(const std::vector<DecoderStep> &steps);

  /// The text that `token` completes. An error if the steps make too much text
  /// of the tokens: a step that replaces may multiply them.
  Result<std::string> push(std::string token);
  /// The rest. Then the state is like a new one.
  Result<std::string> finish();

private:
  struct StepState {
    std::string pending;   // bytes of an unfinished run or character
    uint64_t tokens = 0;   // seen so far
    uint64_t stripped = 0; // characters
    bool stripping = true;
  };
  using Tokens = std::vector<std::string>;

  void apply(size_t index, std::string token, Tokens &out);
  void strip(const DecoderStep &step, StepState &state, std::string &token);
  Result<std::string> run(Tokens tokens, bool last);

  const std::vector<DecoderStep> *steps;
  std::vector<StepState> states;
  Effort effort = Effort::ofDecoder();
};

} // namespace cria
