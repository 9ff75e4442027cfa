/// A grammar as a recursive transition network over bytes: for each rule an
/// automaton whose edges are bytes or calls of rules.
///
///   rule   "a" x | "b"        Split -> Bytes{a} -> Call x -> End
///                                  \-> Bytes{b} ----------> End
///
/// A character class is a rule of its own where it has characters beyond
/// ASCII, because UTF-8 spells these as several bytes.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/Expression.h"

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

namespace cria::grammar {

using NodeId = uint32_t;

class Network {
public:
  /// A place in a rule.
  struct Node {
    enum class Kind : uint8_t { Bytes, Call, Split, End };
    Kind kind;
    uint32_t what; // Bytes: index of a set; Call: a rule; Split: a node
    NodeId next;   // but for End
  };
  using ByteSet = std::bitset<256>;

  /// The most nodes of a grammar: what bounded repetitions multiply.
  static constexpr size_t mostNodes = 1u << 18;

  /// RESOURCE_EXHAUSTED: the grammar has too many nodes. INVALID_ARGUMENT: a
  /// rule begins with itself, or no text matches.
  static Result<Network> build(const std::vector<Rule> &rules);

  const Node &node(NodeId id) const { return nodes[id]; }
  const ByteSet &set(uint32_t index) const { return sets[index]; }
  RuleId root() const { return 0; }

  /// Whether a text of the rule leads from this node to the rule's end.
  bool leadsOn(NodeId id) const { return productive[id]; }
  /// Whether the empty text is one of the rule's.
  bool nullable(RuleId rule) const { return empty[starts[rule]]; }
  /// The nodes Bytes and Call that a text of the rule may begin with.
  const std::vector<NodeId> &firsts(RuleId rule) const { return first[rule]; }
  /// A rule's place in an order in which a rule comes before those that it
  /// begins with.
  uint32_t rank(RuleId rule) const { return ranks[rule]; }

  /// Bytes of one class are in the same sets.
  uint8_t classOf(uint8_t byte) const { return classes[byte]; }
  size_t classCount() const { return representative.size(); }
  /// A byte of a class.
  uint8_t byteOf(size_t number) const { return representative[number]; }

private:
  friend class NetworkBuilder;

  std::vector<bool> reach(bool throughBytes) const;
  void findFirsts();
  Status findRanks(const std::vector<Rule> &rules);
  void findClasses();

  std::vector<Node> nodes;
  std::vector<ByteSet> sets;
  std::vector<NodeId> starts; // of each rule
  std::vector<bool> productive, empty;
  std::vector<std::vector<NodeId>> first;
  std::vector<uint32_t> ranks;
  std::array<uint8_t, 256> classes;
  std::vector<uint8_t> representative;
};

} // namespace cria::grammar
