#include "runtime/text/gguf/Merges.h"

#include "runtime/text/tokenizer/Text.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace cria::gguf {

using nlohmann::json;

// The most bytes that are hashed. Gemma 2's 256,000 tokens take 30 million.
static constexpr uint64_t maxWork = 1 << 29;
// A merge takes some bytes here and in JSON, besides its texts. All merges may
// take some memory, and more where there are more tokens: Gemma 2 has 2.3
// merges a token, and hostile tokens have thousands.
static constexpr uint64_t bytesOfMerge = 320, leastMemory = 48 << 20,
                          memoryOfToken = 1280;

namespace {

struct Merge {
  double score;
  uint32_t leftLength, rightLength; // in characters
  uint32_t token;                   // the result
  int64_t left, right;              // ids
};

/// Finds the merges.
class MergeFinder {
public:
  MergeFinder(TextReader &reader, const Tokens &tokens, uint64_t most)
      : reader(reader), tokens(tokens),
        most(std::min(most,
                      leastMemory + memoryOfToken * tokens.texts.size())) {}
  std::vector<Merge> find();

private:
  bool isText(size_t id) const;
  void split(size_t id);

  TextReader &reader;
  const Tokens &tokens;
  const uint64_t most; // bytes of all merges
  std::unordered_map<std::string_view, int64_t> ids;
  std::vector<Merge> merges;
  uint64_t work = 0, memory = 0;
};

} // namespace

/// Whether a token stands for its own text.
bool MergeFinder::isText(size_t id) const {
  return tokens.kinds[id] == TokenKind::Normal ||
         tokens.kinds[id] == TokenKind::UserDefined ||
         tokens.kinds[id] == TokenKind::Unused;
}

/// Adds the pairs that make the token `id`, by the ids of their sides.
void MergeFinder::split(size_t id) {
  std::string_view text = tokens.texts[id];
  work += text.size() * text.size();
  if (work > maxWork)
    return reader.fail("the tokens are too long to find the merges of");
  std::vector<size_t> starts; // of characters
  for (size_t at = 0; at < text.size(); at += characterLength(text, at))
    starts.push_back(at);
  size_t first = merges.size();
  for (size_t i = 1; i < starts.size(); ++i) {
    auto left = ids.find(text.substr(0, starts[i]));
    auto right = ids.find(text.substr(starts[i]));
    if (left == ids.end() || right == ids.end())
      continue;
    memory += bytesOfMerge + text.size();
    if (memory > most)
      return reader.fail("the tokens have more merges than " +
                         std::to_string(merges.size()) +
                         ", too many for their number");
    merges.push_back({tokens.scores[id], static_cast<uint32_t>(i),
                      static_cast<uint32_t>(starts.size() - i),
                      static_cast<uint32_t>(id), left->second, right->second});
  }
  std::sort(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end(),
            [](const Merge &a, const Merge &b) {
              return std::tie(a.left, a.right) < std::tie(b.left, b.right);
            });
}

std::vector<Merge> MergeFinder::find() {
  for (size_t id = 0; id < tokens.texts.size(); ++id)
    if (isText(id))
      ids.emplace(tokens.texts[id], id);
  for (size_t id = 0; id < tokens.texts.size() && reader.status.ok(); ++id)
    if (isText(id))
      split(id);
  auto key = [](const Merge &merge) {
    return std::tie(merge.score, merge.leftLength, merge.rightLength);
  };
  std::stable_sort(
      merges.begin(), merges.end(),
      [&](const Merge &a, const Merge &b) { return key(b) < key(a); });
  return std::move(merges);
}

json mergesOfScores(TextReader &reader, const Tokens &tokens, uint64_t most) {
  json list = json::array();
  if (!reader.status.ok())
    return list;
  for (const Merge &merge : MergeFinder(reader, tokens, most).find())
    list.push_back({tokens.texts[static_cast<size_t>(merge.left)],
                    tokens.texts[static_cast<size_t>(merge.right)]});
  return list;
}

} // namespace cria::gguf
