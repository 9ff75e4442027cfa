/// Byte-pair encoding starts with the characters of a word. It repeatedly
/// merges the adjacent pair that comes first in the list of merges; if that
/// pair occurs several times, the leftmost. A heap holds the pairs that can
/// merge. An entry becomes stale when one of its two symbols is merged with
/// another neighbour. A stale entry is recognized at the top of the heap: the
/// pair at its place is another one. Each merge removes a symbol and adds at
/// most two entries, so a word of n characters takes O(n log n).
#include "runtime/text/tokenizer/models/Bpe.h"

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/Text.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace cria {

std::unique_ptr<const TokenModel> BpeModel::read(const JsonCursor &model) {
  auto bpe = std::make_unique<BpeModel>();
  onlyKeys(model, {"type", "dropout", "unk_token", "continuing_subword_prefix",
                   "end_of_word_suffix", "fuse_unk", "byte_fallback",
                   "ignore_merges", "vocab", "merges"});
  if (auto dropout = model.find("dropout");
      dropout && dropout->number(0, 1) != 0)
    refuse(*dropout, "null");
  for (const char *key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (auto affix = model.find(key); affix && !affix->string().empty())
      refuse(*affix, "null");
  auto flag = [&](const char *key) {
    auto found = model.find(key);
    return found && found->boolean();
  };
  bpe->ignoreMerges = flag("ignore_merges");
  bpe->fuseUnknown = flag("fuse_unk");
  if (model.ok())
    bpe->tokens = Vocabulary::read(model["vocab"]);
  if (model.ok())
    bpe->readMerges(model["merges"]);
  if (auto unknown = model.find("unk_token"))
    bpe->unknownId = bpe->tokens.named(*unknown);
  if (flag("byte_fallback"))
    bpe->bytes.read(bpe->tokens);
  return bpe;
}

/// The two tokens of a merge: "a b", or ["a", "b"]. False if it is neither.
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
  std::optional<int32_t> id = tokens.find(token);
  if (!id)
    list.fail("at " + std::to_string(index) + " names " + quote(token) +
              ", which is not in the vocabulary");
  return id.value_or(0);
}

void BpeModel::readMerges(const JsonCursor &list) {
  if (!list.raw().is_array())
    return list.expected("an array");
  merges.reserve(list.raw().size());
  for (size_t i = 0; i < list.raw().size() && list.ok(); ++i) {
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
    merges.push_back({leftId, rightId, static_cast<int32_t>(i),
                      readMergeToken(list, i, left + right)});
  }
  if (list.ok())
    indexMerges(list);
}

void BpeModel::indexMerges(const JsonCursor &list) {
  std::sort(merges.begin(), merges.end(), [](const Merge &a, const Merge &b) {
    return std::tie(a.left, a.right, a.rank) <
           std::tie(b.left, b.right, b.rank);
  });
  firstMerge.assign(tokens.idLimit() + 1, 0);
  for (size_t i = 0; i < merges.size(); ++i) {
    const Merge &merge = merges[i];
    if (i > 0 && merge.left == merges[i - 1].left &&
        merge.right == merges[i - 1].right)
      list.fail("at " + std::to_string(merge.rank) + " repeats the merge at " +
                std::to_string(merges[i - 1].rank));
    ++firstMerge[merge.left + 1];
  }
  for (size_t id = 1; id < firstMerge.size(); ++id)
    firstMerge[id] += firstMerge[id - 1];
}

const BpeModel::Merge *BpeModel::findMerge(int32_t left, int32_t right) const {
  auto end = merges.begin() + firstMerge[left + 1];
  auto place = std::lower_bound(
      merges.begin() + firstMerge[left], end, right,
      [](const Merge &merge, int32_t key) { return merge.right < key; });
  return place != end && place->right == right ? &*place : nullptr;
}

/// The ids of the characters of `word`. A character that is not in the
/// vocabulary becomes its bytes or the unknown token; a run of unknown tokens
/// may be fused. Without either, the character vanishes. An unknown token is
/// held back until a known character comes, even past bytes: the order of
/// Hugging Face tokenizers.
std::vector<int32_t> BpeModel::split(std::string_view word) const {
  std::vector<int32_t> ids;
  ids.reserve(word.size());
  bool unknown = false;
  for (size_t at = 0; at < word.size();) {
    std::string_view character = word.substr(at, characterLength(word, at));
    at += character.size();
    if (std::optional<int32_t> id = tokens.find(character)) {
      if (std::exchange(unknown, false))
        ids.push_back(unknownId);
      ids.push_back(*id);
    } else if (!bytes.spell(character, ids) && unknownId >= 0) {
      if (unknown && !fuseUnknown)
        ids.push_back(unknownId);
      unknown = true;
    }
  }
  if (unknown)
    ids.push_back(unknownId);
  return ids;
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

/// The most that a byte costs, in units of effort: its places in the heap, and
/// the merges looked up.
static constexpr uint64_t workPerByte = 256;

Status BpeModel::encode(std::string_view word, std::vector<int32_t> &ids,
                        Effort &effort) const {
  if (!effort.spend(workPerByte * (word.size() + 1)))
    return tooLong();
  if (ignoreMerges)
    if (std::optional<int32_t> id = tokens.find(word)) {
      ids.push_back(*id);
      return Status();
    }
  std::vector<int32_t> characters = split(word);
  std::vector<Symbol> symbols;
  symbols.reserve(characters.size());
  auto count = static_cast<int32_t>(characters.size());
  for (int32_t i = 0; i < count; ++i)
    symbols.push_back(
        {characters[i], i - 1, i + 1 < count ? i + 1 : -1, false});
  merge(symbols);
  for (const Symbol &symbol : symbols)
    if (!symbol.gone)
      ids.push_back(symbol.id);
  return Status();
}

} // namespace cria
