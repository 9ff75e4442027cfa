/// A small vocabulary for grammars.
#pragma once

#include "runtime/text/grammar/TokenTrie.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace cria::test {

/// The tokens of a tokenizer: `spelled[i]` has id i, "<0xC3>" spells a byte,
/// and the last one is special. All differ.
inline Result<std::shared_ptr<const grammar::TokenTrie>>
grammarTokens(const std::vector<std::string> &spelled) {
  nlohmann::json vocab;
  for (const std::string &token : spelled)
    vocab[token] = vocab.size();
  nlohmann::json end = {{"id", spelled.size() - 1}, {"content", spelled.back()},
                        {"special", true},          {"normalized", false},
                        {"single_word", false},     {"lstrip", false},
                        {"rstrip", false}};
  nlohmann::json document = {{"added_tokens", {end}},
                             {"decoder", {{"type", "ByteFallback"}}},
                             {"model",
                              {{"type", "BPE"},
                               {"vocab", vocab},
                               {"merges", nlohmann::json::array()},
                               {"byte_fallback", true}}}};
  Result<Tokenizer> tokenizer = Tokenizer::parse(document.dump(), "t.json");
  if (!tokenizer.ok())
    return tokenizer.status();
  return grammar::TokenTrie::create(*tokenizer);
}

} // namespace cria::test
