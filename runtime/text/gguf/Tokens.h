/// The tokens of a GGUF file, checked.
#pragma once

#include "runtime/gguf/Header.h"

namespace cria::gguf {

/// What a token is, by the format's numbers.
enum class TokenKind {
  Normal = 1,
  Unknown,
  Control,     // special: no text
  UserDefined, // found in the text before it is cut into words
  Unused,
  Byte
};

/// Reads keys of a header. After an error, all reads return the fallback.
class TextReader {
public:
  TextReader(const Header &header, const std::string &path)
      : header(header), path(path) {}

  /// The value, or null.
  const Value *find(const std::string &key) const { return header.find(key); }
  std::string text(const std::string &key, const std::string &fallback);
  bool flag(const std::string &key, bool fallback);
  /// The id of a token; nothing if the key is absent.
  std::optional<int64_t> id(const std::string &key);
  /// The ids of an array; none if the key is absent.
  std::vector<int64_t> ids(const std::string &key);

  void fail(const std::string &what, cria_status code = CRIA_INVALID_ARGUMENT);
  /// "'key' is VALUE, expected WHAT"
  void expected(const std::string &key, const std::string &what,
                cria_status code = CRIA_INVALID_ARGUMENT);

  Status status;

private:
  const Header &header;
  std::string path;
};

/// The vocabulary: a token for each id.
struct Tokens {
  std::vector<std::string_view> texts; // valid UTF-8, no two the same
  std::vector<TokenKind> kinds;
  std::vector<double> scores; // empty where there are none

  /// Found in the text before it is cut into words.
  bool isAdded(size_t id) const {
    return kinds[id] == TokenKind::Control ||
           kinds[id] == TokenKind::UserDefined;
  }
  std::optional<int64_t> find(std::string_view text) const;
};

/// Reads tokenizer.ggml.tokens, token_type and scores. Refers to the header.
Tokens readTokens(TextReader &reader);

} // namespace cria::gguf
