#include "runtime/text/tokenizer/models/Vocabulary.h"

#include <algorithm>

namespace cria {

/// Five times the nodes of a vocabulary of 256k tokens.
static constexpr size_t maxNodes = 4u << 20;

Vocabulary Vocabulary::read(const JsonCursor &vocab) {
  std::vector<std::pair<std::string, int32_t>> tokens;
  if (!vocab.raw().is_object()) {
    vocab.expected("an object");
    return {};
  }
  tokens.reserve(vocab.raw().size());
  for (const auto &[token, value] : vocab.raw().items()) {
    // A cursor only where it is needed: it costs memory.
    int64_t id = wholeNumber(value).value_or(-1);
    if (id < 0 || id >= static_cast<int64_t>(maxTokenIds)) {
      vocab[token].integer(0, maxTokenIds - 1);
      return {};
    }
    tokens.emplace_back(token, static_cast<int32_t>(id));
  }
  return make(std::move(tokens), vocab);
}

Vocabulary Vocabulary::make(std::vector<std::pair<std::string, int32_t>> tokens,
                            const JsonCursor &place) {
  Vocabulary vocabulary;
  std::sort(tokens.begin(), tokens.end());
  for (size_t i = 0; i < tokens.size() && place.ok(); ++i) {
    const auto &[token, id] = tokens[i];
    if (i > 0 && tokens[i - 1].first == token)
      place.fail("repeats the token " + quote(token));
    if (id >= vocabulary.idLimit())
      vocabulary.byId.resize(id + 1, -1);
    int32_t &index = vocabulary.byId[id];
    if (index >= 0)
      place.fail("gives id " + std::to_string(id) + " to " +
                 quote(tokens[index].first) + " and to " + quote(token));
    index = static_cast<int32_t>(i);
  }
  vocabulary.tokens = std::move(tokens);
  if (place.ok() && !vocabulary.index())
    place.fail("has more than " + std::to_string(maxNodes) +
               " different beginnings of tokens");
  return vocabulary;
}

/// Builds the trie, breadth first. The tokens that begin with the text of a
/// node are a range of the sorted tokens. The ranges of its children divide
/// that range. Only the ranges of the nodes of one length are kept.
bool Vocabulary::index() {
  struct Range {
    uint32_t begin, end;
  };
  std::vector<Range> ranges = {{0, static_cast<uint32_t>(tokens.size())}};
  size_t node = 0;
  for (size_t length = 0; !ranges.empty(); ++length) {
    std::vector<Range> longer;
    for (auto [at, end] : ranges) {
      if (at < end && tokens[at].first.size() == length)
        nodes[node].id = tokens[at++].second;
      nodes[node].children = static_cast<uint32_t>(nodes.size());
      while (at < end) {
        char byte = tokens[at].first[length];
        uint32_t begin = at;
        while (at < end && tokens[at].first[length] == byte)
          ++at;
        if (nodes.size() == maxNodes)
          return false;
        ++nodes[node].count;
        nodes.emplace_back().byte = static_cast<uint8_t>(byte);
        longer.push_back({begin, at});
      }
      ++node;
    }
    ranges = std::move(longer);
  }
  return true;
}

Vocabulary::Place Vocabulary::next(Place place, char byte) const {
  const Node &node = nodes[place];
  auto begin = nodes.begin() + node.children, end = begin + node.count;
  auto found = std::lower_bound(
      begin, end, static_cast<uint8_t>(byte),
      [](const Node &child, uint8_t key) { return child.byte < key; });
  return found != end && found->byte == static_cast<uint8_t>(byte)
             ? static_cast<Place>(found - nodes.begin())
             : nowhere;
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  Place place = start;
  for (char byte : token)
    if ((place = next(place, byte)) == nowhere)
      return std::nullopt;
  if (idAt(place) < 0)
    return std::nullopt;
  return idAt(place);
}

const std::string *Vocabulary::token(int64_t id) const {
  if (id < 0 || id >= idLimit() || byId[id] < 0)
    return nullptr;
  return &tokens[byId[id]].first;
}

int32_t Vocabulary::named(const JsonCursor &key) const {
  std::optional<int32_t> id = find(key.string());
  if (!id)
    key.fail("is " + quote(key.string()) + ", which is not in the vocabulary");
  return id.value_or(-1);
}

} // namespace cria
