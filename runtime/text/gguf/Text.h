/// What a GGUF file says about text: its tokenizer, its chat template, and the
/// ids that begin and end a text.
#pragma once

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cria::gguf {

/// The tokenizer.json that the metadata stands for. A key or value that would
/// change the ids and is not done is refused by name. Without a tokenizer,
/// CRIA_NOT_FOUND.
Result<nlohmann::json> readTokenizer(const std::string &path);

/// A chat template, and the special tokens that it may name: "bos_token".
struct ChatTemplate {
  std::string source;
  std::vector<std::pair<std::string, std::string>> tokens;
};

/// tokenizer.chat_template. Without one, CRIA_NOT_FOUND.
Result<ChatTemplate> readChatTemplate(const std::string &path);

/// The id that begins a text, and those that end it: the end of a text, of a
/// turn, of a message. As in llama.cpp, the last two may be known by the names
/// of their tokens alone.
struct TextIds {
  std::optional<int64_t> bos;
  std::vector<int64_t> eos;
};
Result<TextIds> readTextIds(const std::string &path);

} // namespace cria::gguf
