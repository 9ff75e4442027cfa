/// The bytes of the tokens of a vocabulary, and a tree of their beginnings.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cria::grammar {

class TokenTrie {
public:
  /// The tokens of `tokenizer` that are text: special tokens are not, and a
  /// token of more bytes than `mostBytes` is left out. RESOURCE_EXHAUSTED for
  /// more bytes than `mostNodes`.
  static Result<std::shared_ptr<const TokenTrie>>
  create(const Tokenizer &tokenizer);
  static constexpr size_t mostBytes = 512, mostNodes = 1u << 24;

  /// Nodes stand in the order of their bytes, a node before its children.
  struct Node {
    uint32_t after; // the first node that is not below this one
    uint32_t ids;   // where its tokens begin; they end where the next node's do
    uint16_t depth; // bytes that lead to the node
    uint8_t byte;   // the last of them
  };

  size_t size() const { return nodes.size() - 1; }
  const Node &operator[](size_t index) const { return nodes[index]; }
  int32_t id(size_t index) const { return ids[index]; }
  /// One more than the largest id of the tokenizer.
  int64_t idLimit() const { return static_cast<int64_t>(begins.size()) - 1; }
  /// The longest token that `text` begins with, one of its ids; -1 if there is
  /// none.
  int32_t longest(std::string_view text) const;
  /// The bytes of an id; none if it is no text.
  std::string_view bytes(int64_t id) const {
    if (id < 0 || id >= idLimit())
      return {};
    return std::string_view(text).substr(begins[id],
                                         begins[id + 1] - begins[id]);
  }

private:
  void link();

  std::vector<Node> nodes;      // one more at the end
  std::vector<int32_t> ids;     // in the order of their bytes
  std::string text;             // the bytes of all ids
  std::vector<uint32_t> begins; // of each id in them, and their end
};

} // namespace cria::grammar
