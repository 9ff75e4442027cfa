/// The tokens of a tokenizer's model and their ids.
#pragma once

#include "runtime/base/Json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria {

/// Ids of a tokenizer are below this number, so that tables indexed by ids stay
/// small for every file.
constexpr int64_t maxTokenIds = 1 << 21;

/// The most memory of a tokenizer as JSON; Gemma 3's takes 140 MiB. With what
/// is made of it, a tokenizer takes at most 768 MiB.
constexpr uint64_t maxTokenizerMemory = 320u << 20;

/// A trie over the bytes of all tokens. Looking up a text takes time by its
/// length alone; no file can make it slow.
class Vocabulary {
public:
  /// Reads an object from tokens to ids.
  static Vocabulary read(const JsonCursor &vocab);
  /// From tokens and their ids, all of them unique; errors are noted at
  /// `place`.
  static Vocabulary make(std::vector<std::pair<std::string, int32_t>> tokens,
                         const JsonCursor &place);

  /// The id of `token`, if it is one.
  std::optional<int32_t> find(std::string_view token) const;
  /// The token with this id, or nullptr.
  const std::string *token(int64_t id) const;
  /// The id of the token that the member `key` names, which must be one.
  int32_t named(const JsonCursor &key) const;

  /// The number of tokens; ids may be larger if there are gaps.
  size_t size() const { return tokens.size(); }
  /// One more than the largest id.
  int64_t idLimit() const { return static_cast<int64_t>(byId.size()); }

  /// A place in the trie: the bytes read so far. `nowhere`: no token begins
  /// with these bytes.
  using Place = uint32_t;
  static constexpr Place start = 0, nowhere = UINT32_MAX;
  /// The place after one more byte.
  Place next(Place place, char byte) const;
  /// The id of the token that ends at `place`, or -1.
  int32_t idAt(Place place) const { return nodes[place].id; }

private:
  struct Node {
    uint32_t children = 0; // the first of them; they stand side by side
    int32_t id = -1;
    uint16_t count = 0; // of children, sorted by byte
    uint8_t byte = 0;   // that leads here
  };

  bool index();

  std::vector<std::pair<std::string, int32_t>> tokens; // by token
  std::vector<int32_t> byId; // index into `tokens`, -1 where no token
  std::vector<Node> nodes = {Node()};
};

} // namespace cria
