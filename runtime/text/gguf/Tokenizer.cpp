/// A GGUF file has the parts of a tokenizer: tokens with their types, and
/// merges or scores. It has only a name for the way that a text is cut into
/// words. Here the parts become the tokenizer.json that they come from, which
/// is then read like any other.
#include "runtime/gguf/Files.h"
#include "runtime/text/gguf/Merges.h"
#include "runtime/text/gguf/Text.h"
#include "runtime/text/gguf/Tokens.h"
#include "runtime/text/gguf/Words.h"
#include "runtime/text/tokenizer/models/Vocabulary.h"

#include "runtime/base/Json.h"

#include <algorithm>

namespace cria::gguf {

using nlohmann::json;

/// The keys below tokenizer.ggml. that are read or do not change ids. Tokens
/// that fill in the middle of a text, for example, are tokens like others.
static constexpr std::string_view knownKeys[] = {
    "add_bos_token",
    "add_eos_token",
    "add_space_prefix",
    "bos_token_id",
    "bos_token_ids",
    "cls_token_id",
    "cls_token_ids",
    "eom_token_id",
    "eos_token_id",
    "eos_token_ids",
    "eot_token_id",
    "fim_mid_token_id",
    "fim_pad_token_id",
    "fim_pre_token_id",
    "fim_rep_token_id",
    "fim_sep_token_id",
    "fim_suf_token_id",
    "mask_token_id",
    "mask_token_ids",
    "merges",
    "middle_token_id",
    "model",
    "padding_token_id",
    "padding_token_ids",
    "pre",
    "prefix_token_id",
    "scores",
    "separator_token_id",
    "separator_token_ids",
    "seperator_token_id",
    "suffix_token_id",
    "token_type",
    "token_type_count",
    "tokens",
    "unknown_token_id",
    "unknown_token_ids",
};

/// Refuses unknown keys below tokenizer.ggml. An unknown key may be false: it
/// switches off a feature of another tokenizer.
static void checkKeys(const Header &header, TextReader &reader) {
  static constexpr std::string_view prefix = "tokenizer.ggml.";
  for (const auto &[key, value] : header.metadata()) {
    if (key.compare(0, prefix.size(), prefix) != 0)
      continue;
    bool isKnown = std::find(std::begin(knownKeys), std::end(knownKeys),
                             key.substr(prefix.size())) != std::end(knownKeys);
    if (!isKnown && value.boolean().value_or(true))
      reader.fail("'" + key + "' is " + value.shown() +
                      ", a key of tokenizers that is not known here",
                  CRIA_UNIMPLEMENTED);
  }
}

/// The number of ids in the model's vocabulary. After them there are only added
/// tokens and tokens that fill up the embedding.
static size_t vocabularySize(const Tokens &tokens) {
  size_t size = tokens.texts.size();
  while (size > 0 && (tokens.isAdded(size - 1) ||
                      tokens.kinds[size - 1] == TokenKind::Unused))
    --size;
  // Added tokens have the ids after the vocabulary without a gap.
  bool gap = false;
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    bool unused = tokens.kinds[id] == TokenKind::Unused;
    if (tokens.texts[id].empty() || (gap && id >= size && !unused))
      return tokens.texts.size();
    gap |= id >= size && unused;
  }
  return size;
}

static json vocabularyOf(const Tokens &tokens) {
  json vocabulary = json::object();
  for (size_t id = 0, size = vocabularySize(tokens); id < size; ++id)
    if (!tokens.texts[id].empty())
      vocabulary[std::string(tokens.texts[id])] = id;
  return vocabulary;
}

/// Whether Phi 3 strips white space after the token, as in llama.cpp. Its
/// tokenizer.json says so, GGUF does not.
static bool stripsRight(const Tokens &tokens, size_t id, bool phi3) {
  std::string_view text = tokens.texts[id];
  return phi3 && tokens.kinds[id] == TokenKind::Control && text != "<unk>" &&
         text != "<s>" && text != "<|endoftext|>";
}

static json addedTokens(const Tokens &tokens, bool phi3) {
  json list = json::array();
  for (size_t id = 0; id < tokens.texts.size(); ++id)
    if (!tokens.texts[id].empty() &&
        (tokens.isAdded(id) || tokens.kinds[id] == TokenKind::Unknown))
      list.push_back({{"id", id},
                      {"content", tokens.texts[id]},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", stripsRight(tokens, id, phi3)},
                      {"normalized", false},
                      {"special", tokens.kinds[id] != TokenKind::UserDefined}});
  return list;
}

/// The most memory that the tokens take as JSON.
static uint64_t memoryOf(const Tokens &tokens) {
  constexpr uint64_t ofAdded = 1024; // its seven members
  uint64_t memory = 0;
  for (size_t id = 0; id < tokens.texts.size(); ++id) {
    std::string_view text = tokens.texts[id];
    memory += memoryOfKey(text) + cria::memoryOf(id);
    if (tokens.isAdded(id))
      memory += ofAdded + text.size();
  }
  return memory;
}

/// Refuses what takes more memory as JSON than a tokenizer.json may, before it
/// does.
static void checkMemory(TextReader &reader, const Tokens &tokens,
                        const std::vector<std::string_view> &merges) {
  uint64_t memory = memoryOf(tokens);
  for (std::string_view merge : merges)
    memory += cria::memoryOf(json(merge));
  if (memory > maxTokenizerMemory)
    reader.fail("has " + std::to_string(tokens.texts.size()) + " tokens and " +
                std::to_string(merges.size()) + " merges that take " +
                std::to_string(memory >> 20) + " MiB, expected at most " +
                std::to_string(maxTokenizerMemory >> 20));
}

/// A piece of a TemplateProcessing.
static json piece(const char *kind, const std::string &id) {
  return {{kind, {{"id", id}, {"type_id", 0}}}};
}

/// Puts the special tokens that begin and end a text around it.
static json postProcessor(TextReader &reader, const Tokens &tokens,
                          bool beginsTexts) {
  json single = json::array(), special = json::object();
  auto add = [&](const char *flag, bool fallback, const std::string &key) {
    bool wanted = reader.flag(flag, fallback);
    std::optional<int64_t> id = reader.id(key);
    if (wanted && !id && reader.find(flag))
      reader.expected(key, "an id, as " + std::string(flag) + " is true");
    if (!wanted || !id || !reader.status.ok())
      return;
    std::string name(tokens.texts[static_cast<size_t>(*id)]);
    single.push_back(piece("SpecialToken", name));
    special[name] = {{"id", name}, {"ids", {*id}}, {"tokens", {name}}};
  };
  add("tokenizer.ggml.add_bos_token", beginsTexts,
      "tokenizer.ggml.bos_token_id");
  single.push_back(piece("Sequence", "A"));
  add("tokenizer.ggml.add_eos_token", false, "tokenizer.ggml.eos_token_id");
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", json::array()},
          {"special_tokens", special}};
}

/// The file's merges: two tokens with a space between them.
static json readMerges(TextReader &reader, const Tokens &tokens) {
  const Value *merges = reader.find("tokenizer.ggml.merges");
  auto pairs = merges ? merges->texts() : std::nullopt;
  if (!pairs)
    reader.expected("tokenizer.ggml.merges", "a list of strings");
  else
    checkMemory(reader, tokens, *pairs);
  if (!reader.status.ok())
    return nullptr;
  json list = json::array();
  for (std::string_view merge : *pairs) {
    if (merge.size() < 3 || merge.find(' ', 1) == merge.npos)
      reader.fail("'tokenizer.ggml.merges' has " + quote(merge) +
                  ", expected two tokens with a space between them");
    list.push_back(merge);
  }
  return list;
}

/// A tokenizer like GPT-2's: bytes as characters, and a list of merges.
static json readBytePairs(TextReader &reader, const Tokens &tokens) {
  const Words *words = readWords(reader);
  json merges = readMerges(reader, tokens);
  if (!reader.status.ok())
    return nullptr;
  return {{"normalizer", words->normalizer()},
          {"pre_tokenizer", words->preTokenizer()},
          {"decoder", {{"type", "ByteLevel"}}},
          {"post_processor",
           postProcessor(reader, tokens, words->has(BeginsTexts))},
          {"model",
           {{"type", "BPE"},
            {"ignore_merges", words->has(IgnoresMerges)},
            {"merges", std::move(merges)}}}};
}

/// The merges that make each token, by the scores of the tokens.
static json makeMerges(TextReader &reader, const Tokens &tokens) {
  if (tokens.scores.empty())
    reader.expected("tokenizer.ggml.scores", "a score for each token");
  checkMemory(reader, tokens, {});
  return mergesOfScores(reader, tokens, maxTokenizerMemory - memoryOf(tokens));
}

/// A tokenizer like SentencePiece's: characters, and `merges` of them; bytes if
/// there is no token.
static json readSentencePieces(TextReader &reader, const Tokens &tokens,
                               json merges) {
  static constexpr char blank[] = "\u2581";
  bool prefix = reader.flag("tokenizer.ggml.add_space_prefix", true);
  json replace = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", blank}};
  json back = {
      {"type", "Replace"}, {"pattern", {{"String", blank}}}, {"content", " "}};
  json normalizers = json::array(),
       decoders = {back, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (prefix) {
    normalizers.push_back({{"type", "Prepend"}, {"prepend", blank}});
    decoders.push_back(
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back(replace);
  json model = {{"type", "BPE"},
                {"fuse_unk", true},
                {"byte_fallback", true},
                {"merges", std::move(merges)}};
  auto unknown = reader.id("tokenizer.ggml.unknown_token_id");
  for (size_t id = 0; id < tokens.kinds.size() && !unknown; ++id)
    if (tokens.kinds[id] == TokenKind::Unknown)
      unknown = id;
  if (unknown)
    model["unk_token"] = tokens.texts[static_cast<size_t>(*unknown)];
  return {{"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
          {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
          {"post_processor", postProcessor(reader, tokens, true)},
          {"model", std::move(model)}};
}

Result<json> readTokenizer(const std::string &path) {
  Result<std::vector<OpenFile>> parts = openFiles(path);
  if (!parts.ok())
    return parts.status();
  const Header &header = parts->front().header;
  TextReader reader(header, path);
  std::string kind = reader.text("tokenizer.ggml.model", "none");
  if (kind == "none" || kind == "no_vocab")
    return Status(CRIA_NOT_FOUND, path + ": has no tokenizer");
  if (kind != "gemma4" && kind != "gpt2" && kind != "llama")
    reader.expected("tokenizer.ggml.model", "\"gemma4\", \"gpt2\" or \"llama\"",
                    CRIA_UNIMPLEMENTED);
  checkKeys(header, reader);
  if (!reader.status.ok())
    return reader.status;
  Tokens tokens = readTokens(reader);
  if (!reader.status.ok())
    return reader.status;
  json result;
  if (kind == "gpt2")
    result = readBytePairs(reader, tokens);
  else if (kind == "gemma4")
    result = readSentencePieces(reader, tokens, readMerges(reader, tokens));
  else
    result = readSentencePieces(reader, tokens, makeMerges(reader, tokens));
  std::string architecture = reader.text("general.architecture", "");
  if (!reader.status.ok())
    return reader.status;
  result["version"] = "1.0";
  result["model"]["vocab"] = vocabularyOf(tokens);
  result["added_tokens"] =
      addedTokens(tokens, kind == "llama" && architecture == "phi3");
  return result;
}

} // namespace cria::gguf
