/// How texts are cut into words, by the names that llama.cpp gave to the
/// pre-tokenizers of Hugging Face's tokenizers.
#pragma once

#include "runtime/text/gguf/Tokens.h"

#include <nlohmann/json.hpp>

namespace cria::gguf {

/// One of tokenizer.ggml.pre.
struct Words {
  const char *names; // with spaces between them
  /// What the words match, one expression after another; empty for GPT-2's.
  std::vector<const char *> expressions;
  bool singleDigits;  // digits are words
  bool composes;      // texts are normalized to NFC
  bool ignoresMerges; // a word that is a token stays one, whatever the merges
  bool beginsTexts;   // with bos, if the file does not say

  nlohmann::json normalizer() const;
  nlohmann::json preTokenizer() const;
};

/// Reads tokenizer.ggml.pre; null after an error.
const Words *readWords(TextReader &reader);

} // namespace cria::gguf
