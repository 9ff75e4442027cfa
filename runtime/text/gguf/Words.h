/// How texts are cut into words, by the names that llama.cpp gave to the
/// pre-tokenizers of Hugging Face's tokenizers.
#pragma once

#include "runtime/text/gguf/Tokens.h"

#include <nlohmann/json.hpp>

namespace cria::gguf {

/// What is true of a pre-tokenizer and of the BPE after it.
enum WordTraits : unsigned {
  SingleDigits = 1,  // digits are words
  Composes = 2,      // texts are normalized to NFC
  IgnoresMerges = 4, // a word that is a token stays one, whatever the merges
  BeginsTexts = 8    // with bos, if the file does not say
};

/// One of tokenizer.ggml.pre.
struct Words {
  const char *names; // with spaces between them
  /// What the words match, one expression after another; empty for GPT-2's.
  std::vector<const char *> expressions;
  unsigned traits; // WordTraits

  bool has(WordTraits trait) const { return traits & trait; }
  nlohmann::json normalizer() const;
  nlohmann::json preTokenizer() const;
};

/// Reads tokenizer.ggml.pre; null after an error.
const Words *readWords(TextReader &reader);

} // namespace cria::gguf
