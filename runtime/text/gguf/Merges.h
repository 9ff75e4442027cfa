/// The merges of a tokenizer like SentencePiece's, which has scores instead.
#pragma once

#include "runtime/text/gguf/Tokens.h"

#include <nlohmann/json.hpp>

namespace cria::gguf {

/// All pairs of tokens that together form a token, by the score of that token,
/// the highest first; as transformers makes them from a SentencePiece model.
/// More than `most` bytes of them are refused.
nlohmann::json mergesOfScores(TextReader &reader, const Tokens &tokens,
                              uint64_t most);

} // namespace cria::gguf
