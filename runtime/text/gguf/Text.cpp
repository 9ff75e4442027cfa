#include "runtime/text/gguf/Text.h"

#include "runtime/gguf/Files.h"
#include "runtime/text/gguf/Tokens.h"

#include <algorithm>

namespace cria::gguf {

Result<ChatTemplate> readChatTemplate(const std::string &path) {
  static constexpr char key[] = "tokenizer.chat_template";
  Result<std::vector<OpenFile>> parts = openFiles(path);
  if (!parts.ok())
    return parts.status();
  TextReader reader(parts->front().header, path);
  if (!reader.find(key))
    return Status(CRIA_NOT_FOUND,
                  path + ": no chat template: '" + key + "' is missing");
  ChatTemplate result;
  result.source = reader.text(key, "");
  static constexpr std::pair<const char *, const char *> names[] = {
      {"bos_token", "bos"},     {"eos_token", "eos"},
      {"unk_token", "unknown"}, {"sep_token", "seperator"},
      {"pad_token", "padding"}, {"cls_token", "cls"},
      {"mask_token", "mask"}};
  if (!reader.find("tokenizer.ggml.tokens"))
    return result;
  Tokens tokens = readTokens(reader);
  // An id that no token has is the id of none: most templates read two of them.
  for (const auto &[name, which] : names) {
    const Value *value =
        reader.find("tokenizer.ggml." + std::string(which) + "_token_id");
    auto id = static_cast<size_t>(value ? value->integer().value_or(-1) : -1);
    if (id < tokens.texts.size())
      result.tokens.emplace_back(name, tokens.texts[id]);
  }
  if (!reader.status.ok())
    return reader.status;
  return result;
}

Result<TextIds> readTextIds(const std::string &path) {
  // Control tokens of these names end a turn or a message.
  static constexpr std::string_view ends[] = {
      "<end_of_turn>", "<end_of_utterance>", "<|end_of_text|>", "<|endoftext|>",
      "<|end|>",       "<|eom_id|>",         "<|eot_id|>",      "<|im_end|>",
      "<turn|>",
  };
  Result<std::vector<OpenFile>> parts = openFiles(path);
  if (!parts.ok())
    return parts.status();
  TextReader reader(parts->front().header, path);
  TextIds result;
  if (!reader.find("tokenizer.ggml.tokens"))
    return result;
  Tokens tokens = readTokens(reader);
  result.bos = reader.id("tokenizer.ggml.bos_token_id");
  for (const char *which : {"eos", "eot", "eom"})
    if (auto id =
            reader.id("tokenizer.ggml." + std::string(which) + "_token_id"))
      result.eos.push_back(*id);
  for (int64_t id : reader.ids("tokenizer.ggml.eos_token_ids"))
    result.eos.push_back(id);
  for (size_t id = 0; id < tokens.kinds.size() && reader.status.ok(); ++id)
    if (tokens.kinds[id] == TokenKind::Control &&
        std::find(std::begin(ends), std::end(ends), tokens.texts[id]) !=
            std::end(ends))
      result.eos.push_back(static_cast<int64_t>(id));
  if (!reader.status.ok())
    return reader.status;
  std::sort(result.eos.begin(), result.eos.end());
  result.eos.erase(std::unique(result.eos.begin(), result.eos.end()),
                   result.eos.end());
  return result;
}

} // namespace cria::gguf
