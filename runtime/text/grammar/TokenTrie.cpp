#include "runtime/text/grammar/TokenTrie.h"

#include <algorithm>
#include <string>
#include <utility>

namespace cria::grammar {

Result<std::shared_ptr<const TokenTrie>>
TokenTrie::create(const Tokenizer &tokenizer) {
  auto made = std::make_shared<TokenTrie>();
  TokenTrie &trie = *made;
  for (int64_t id = 0; id < tokenizer.idLimit(); ++id) {
    trie.begins.push_back(static_cast<uint32_t>(trie.text.size()));
    if (tokenizer.isSpecial(id))
      continue;
    Result<std::string> bytes = tokenizer.bytes(id);
    if (!bytes.ok())
      return bytes.status();
    if (!bytes->empty() && bytes->size() <= mostBytes) {
      trie.text += *bytes;
      trie.ids.push_back(static_cast<int32_t>(id));
    }
    if (trie.text.size() > mostNodes)
      return Status(CRIA_RESOURCE_EXHAUSTED,
                    "the tokens of the vocabulary have more than " +
                        std::to_string(mostNodes) + " bytes");
  }
  trie.begins.push_back(static_cast<uint32_t>(trie.text.size()));
  std::sort(trie.ids.begin(), trie.ids.end(), [&](int32_t one, int32_t other) {
    return trie.bytes(one) < trie.bytes(other);
  });
  trie.link();
  return std::shared_ptr<const TokenTrie>(std::move(made));
}

int32_t TokenTrie::longest(std::string_view text) const {
  int32_t found = -1;
  size_t at = 0, end = size();
  for (char byte : text) {
    while (at < end && nodes[at].byte != static_cast<uint8_t>(byte))
      at = nodes[at].after;
    if (at == end)
      break;
    if (nodes[at].ids != nodes[at + 1].ids)
      found = ids[nodes[at].ids];
    end = nodes[at++].after;
  }
  return found;
}

/// Makes the nodes, from the sorted ids.
void TokenTrie::link() {
  std::vector<size_t> path; // the nodes of the bytes before
  std::string_view before;
  auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes[path.back()].after = static_cast<uint32_t>(nodes.size());
  };
  for (uint32_t index = 0; index < ids.size(); ++index) {
    std::string_view token = bytes(ids[index]);
    auto parted =
        std::mismatch(before.begin(), before.end(), token.begin(), token.end());
    close(static_cast<size_t>(parted.first - before.begin()));
    while (path.size() < token.size()) {
      auto byte = static_cast<uint8_t>(token[path.size()]);
      path.push_back(nodes.size());
      nodes.push_back({0, index, static_cast<uint16_t>(path.size()), byte});
    }
    before = token;
  }
  close(0);
  nodes.push_back({0, static_cast<uint32_t>(ids.size()), 0, 0});
}

} // namespace cria::grammar
