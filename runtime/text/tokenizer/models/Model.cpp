#include "runtime/text/tokenizer/models/Model.h"

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/models/Bpe.h"
#include "runtime/text/tokenizer/models/Unigram.h"
#include "runtime/text/tokenizer/models/WordPiece.h"

#include <algorithm>
#include <cstring>

namespace cria {

std::unique_ptr<const TokenModel> TokenModel::read(const JsonCursor &model) {
  auto type = model.find("type");
  std::string name = type ? type->string() : "BPE"; // older files do not say
  if (name == "BPE")
    return BpeModel::read(model);
  if (name == "Unigram")
    return UnigramModel::read(model);
  if (name == "WordPiece")
    return WordPieceModel::read(model);
  refuse(*type, "\"BPE\", \"Unigram\" or \"WordPiece\"");
  return nullptr;
}

void ByteTokens::read(const Vocabulary &vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    snprintf(name, sizeof(name), "<0x%02X>", byte);
    ids.push_back(vocabulary.find(name).value_or(-1));
  }
}

bool ByteTokens::spell(std::string_view text,
                       std::vector<int32_t> &spelled) const {
  if (ids.empty())
    return false;
  for (char c : text)
    if (ids[static_cast<uint8_t>(c)] < 0)
      return false;
  for (char c : text)
    spelled.push_back(ids[static_cast<uint8_t>(c)]);
  return true;
}

WordCache::WordCache(const TokenModel &model, size_t bytes) : model(model) {
  size_t size = 1024;
  while (size < bytes / 16 && size < 1 << 15)
    size *= 2;
  if (bytes >= 1024)
    entries.resize(size);
}

/// Hashes eight bytes at a time and mixes them into the high bits, which are
/// used.
static uint64_t hashOf(std::string_view word) {
  uint64_t hash = word.size();
  for (size_t at = 0; at < word.size(); at += 8) {
    uint64_t part = 0;
    memcpy(&part, word.data() + at, std::min<size_t>(8, word.size() - at));
    hash = (hash ^ part) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  }
  return hash * 0x9E3779B97F4A7C15 >> 32;
}

Status WordCache::encode(std::string_view word, std::vector<int32_t> &ids,
                         Effort &effort) {
  if (entries.empty() || word.size() > maxBytes)
    return model.encode(word, ids, effort);
  Entry &entry = entries[hashOf(word) & (entries.size() - 1)];
  if (entry.bytes == word.size() &&
      memcmp(entry.word, word.data(), word.size()) == 0) {
    ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
    return Status();
  }
  size_t before = ids.size();
  Status status = model.encode(word, ids, effort);
  size_t count = ids.size() - before;
  if (status.ok() && count <= maxIds) {
    entry.bytes = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    memcpy(entry.word, word.data(), word.size());
    std::copy(ids.begin() + before, ids.end(), entry.ids);
  }
  return status;
}

} // namespace cria
