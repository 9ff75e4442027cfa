/// Byte-pair encoding starts with a word's characters and, again and again,
/// merges the adjacent pair that stands first in the list of merges - of equal
/// ones, the leftmost. A heap holds the pairs that can merge. An entry goes
/// stale when one of its two symbols is merged with another neighbour; it is
/// recognized when it comes to the top, by the pair that then stands there.
/// Each merge takes a symbol away and adds at most two entries, so a word of n
/// characters takes O(n log n).
#include "runtime/TokenizerModel.h"

#include "runtime/TokenizerJson.h"
#include "runtime/TokenizerText.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace cria {

static uint64_t pairOf(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

BpeModel BpeModel::read(const JsonCursor &model, const Status &status) {
  BpeModel bpe;
  onlyKeys(model, {"type", "dropout", "unk_token", "continuing_subword_prefix",
                   "end_of_word_suffix", "fuse_unk", "byte_fallback",
                   "ignore_merges", "vocab", "merges"});
  if (auto type = model.find("type"); type && type->string() != "BPE")
    refuse(*type, "\"BPE\"");
  if (auto dropout = model.find("dropout");
      dropout && dropout->number(0, 1) != 0)
    refuse(*dropout, "null");
  for (const char *key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (auto affix = model.find(key); affix && !affix->string().empty())
      refuse(*affix, "null");
  if (auto ignore = model.find("ignore_merges"))
    bpe.ignoreMerges = ignore->boolean();
  if (status.ok())
    bpe.readVocabulary(model["vocab"], status);
  if (status.ok())
    bpe.readMerges(model["merges"], status);
  if (status.ok())
    bpe.readUnknown(model);
  return bpe;
}

void BpeModel::readVocabulary(const JsonCursor &vocab, const Status &status) {
  if (!vocab.raw().is_object())
    return vocab.expected("an object");
  int64_t limit = 0;
  for (const auto &[token, value] : vocab.raw().items()) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= maxTokenIds) {
      vocab[token].integer(0, maxTokenIds - 1);
      return;
    }
    vocabulary.emplace_back(token, value.get<int32_t>());
    limit = std::max<int64_t>(limit, vocabulary.back().second + 1);
  }
  std::sort(vocabulary.begin(), vocabulary.end());
  byId.assign(limit, -1);
  for (size_t i = 0; i < vocabulary.size() && status.ok(); ++i) {
    int32_t &place = byId[vocabulary[i].second];
    if (place >= 0)
      vocab.fail("gives id " + std::to_string(vocabulary[i].second) + " to " +
                 quote(vocabulary[place].first) + " and to " +
                 quote(vocabulary[i].first));
    place = static_cast<int32_t>(i);
  }
}

/// The two tokens of a merge: "a b", or ["a", "b"]. False where it is neither.
static bool readPair(const nlohmann::json &merge, std::string &left,
                     std::string &right) {
  if (merge.is_array()) {
    if (merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string())
      return false;
    left = merge[0].get<std::string>();
    right = merge[1].get<std::string>();
    return true;
  }
  if (!merge.is_string())
    return false;
  const std::string &text = merge.get_ref<const std::string &>();
  size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos)
    return false;
  left = text.substr(0, space);
  right = text.substr(space + 1);
  return true;
}

int32_t BpeModel::readMergeToken(const JsonCursor &list, size_t index,
                                 const std::string &token) const {
  std::optional<int32_t> id = find(token);
  if (!id)
    list.fail("at " + std::to_string(index) + " names " + quote(token) +
              ", which is not in the vocabulary");
  return id.value_or(0);
}

void BpeModel::readMerges(const JsonCursor &list, const Status &status) {
  if (!list.raw().is_array())
    return list.expected("an array");
  for (size_t i = 0; i < list.raw().size() && status.ok(); ++i) {
    const nlohmann::json &merge = list.raw()[i];
    if (merge.is_string() &&
        merge.get_ref<const std::string &>().rfind("#version", 0) == 0)
      continue; // the first line of a merges.txt
    std::string left, right;
    if (!readPair(merge, left, right))
      return list.fail("at " + std::to_string(i) +
                       " expected two tokens: \"a b\" or [\"a\", \"b\"]");
    int32_t leftId = readMergeToken(list, i, left);
    int32_t rightId = readMergeToken(list, i, right);
    merges.push_back({pairOf(leftId, rightId), static_cast<int32_t>(i),
                      readMergeToken(list, i, left + right)});
  }
  std::sort(merges.begin(), merges.end(), [](const Merge &a, const Merge &b) {
    return std::tie(a.pair, a.rank) < std::tie(b.pair, b.rank);
  });
  for (size_t i = 1; i < merges.size() && status.ok(); ++i)
    if (merges[i].pair == merges[i - 1].pair)
      list.fail("at " + std::to_string(merges[i].rank) +
                " repeats the merge at " + std::to_string(merges[i - 1].rank));
}

void BpeModel::readUnknown(const JsonCursor &model) {
  if (auto fuse = model.find("fuse_unk"))
    fuseUnknown = fuse->boolean();
  if (auto unknown = model.find("unk_token")) {
    unknownId = find(unknown->string()).value_or(-1);
    if (unknownId < 0)
      unknown->fail("is " + quote(unknown->string()) +
                    ", which is not in the vocabulary");
  }
  auto fallback = model.find("byte_fallback");
  if (!fallback || !fallback->boolean())
    return;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    snprintf(name, sizeof(name), "<0x%02X>", byte);
    byteIds.push_back(find(name).value_or(-1));
  }
}

std::optional<int32_t> BpeModel::find(std::string_view token) const {
  auto place = std::lower_bound(vocabulary.begin(), vocabulary.end(), token,
                                [](const auto &entry, std::string_view key) {
                                  return entry.first < key;
                                });
  if (place == vocabulary.end() || place->first != token)
    return std::nullopt;
  return place->second;
}

const std::string *BpeModel::token(int64_t id) const {
  if (id < 0 || id >= idLimit() || byId[id] < 0)
    return nullptr;
  return &vocabulary[byId[id]].first;
}

const BpeModel::Merge *BpeModel::findMerge(int32_t left, int32_t right) const {
  uint64_t pair = pairOf(left, right);
  auto place = std::lower_bound(
      merges.begin(), merges.end(), pair,
      [](const Merge &merge, uint64_t key) { return merge.pair < key; });
  return place != merges.end() && place->pair == pair ? &*place : nullptr;
}

bool BpeModel::splitBytes(std::string_view character,
                          std::vector<Symbol> &word) const {
  if (byteIds.empty())
    return false;
  for (char c : character)
    if (byteIds[static_cast<uint8_t>(c)] < 0)
      return false;
  for (char c : character)
    word.push_back({byteIds[static_cast<uint8_t>(c)], 0, 0, false});
  return true;
}

/// The characters of `word` as symbols: those not in the vocabulary as bytes
/// or as the unknown token, a run of which may be fused. Without either they
/// vanish. An unknown token is held back until a known character comes, even
/// past bytes: the order of Hugging Face tokenizers.
std::vector<BpeModel::Symbol> BpeModel::split(std::string_view word) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  bool unknown = false;
  for (size_t at = 0; at < word.size();) {
    std::string_view character = word.substr(at, characterLength(word, at));
    at += character.size();
    if (std::optional<int32_t> id = find(character)) {
      if (std::exchange(unknown, false))
        symbols.push_back({unknownId, 0, 0, false});
      symbols.push_back({*id, 0, 0, false});
    } else if (!splitBytes(character, symbols) && unknownId >= 0) {
      if (unknown && !fuseUnknown)
        symbols.push_back({unknownId, 0, 0, false});
      unknown = true;
    }
  }
  if (unknown)
    symbols.push_back({unknownId, 0, 0, false});
  for (size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<int32_t>(i) + 1 : -1;
  }
  return symbols;
}

void BpeModel::merge(std::vector<Symbol> &word) const {
  struct Entry {
    int32_t rank, place, id;
    bool operator<(const Entry &other) const { // the heap's top is its largest
      return std::tie(other.rank, other.place) < std::tie(rank, place);
    }
  };
  std::priority_queue<Entry> heap;
  auto offer = [&](int32_t place) {
    if (place < 0 || word[place].next < 0)
      return;
    if (const Merge *found =
            findMerge(word[place].id, word[word[place].next].id))
      heap.push({found->rank, place, found->id});
  };
  for (size_t i = 0; i < word.size(); ++i)
    offer(static_cast<int32_t>(i));
  while (!heap.empty()) {
    Entry top = heap.top();
    heap.pop();
    Symbol &left = word[top.place];
    if (left.gone || left.next < 0)
      continue;
    Symbol &right = word[left.next];
    const Merge *found = findMerge(left.id, right.id);
    if (!found || found->id != top.id)
      continue; // stale
    left.id = top.id;
    left.next = right.next;
    right.gone = true;
    if (left.next >= 0)
      word[left.next].previous = top.place;
    offer(left.previous);
    offer(top.place);
  }
}

void BpeModel::encode(std::string_view word, std::vector<int32_t> &ids) const {
  if (ignoreMerges)
    if (std::optional<int32_t> id = find(word)) {
      ids.push_back(*id);
      return;
    }
  std::vector<Symbol> symbols = split(word);
  merge(symbols);
  for (const Symbol &symbol : symbols)
    if (!symbol.gone)
      ids.push_back(symbol.id);
}

} // namespace cria
