/// The merges of a tokenizer of SentencePiece's kind, which has scores instead.
#pragma once

#include "runtime/text/gguf/Tokens.h"

#include <nlohmann/json.hpp>

namespace cria::gguf {

/// All pairs of tokens that together are a token, in the order of its scores,
/// the highest first; as transformers makes them of a SentencePiece model.
nlohmann::json mergesOfScores(TextReader &reader, const Tokens &tokens);

} // namespace cria::gguf
