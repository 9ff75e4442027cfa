#include "runtime/text/grammar/Network.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

namespace cria::grammar {

using Kind = Network::Node::Kind;

/// Translates expressions, each from its end to its beginning: a part is given
/// the node that follows it, and returns the node that it begins with.
class NetworkBuilder {
public:
  explicit NetworkBuilder(const std::vector<Rule> &rules) : rules(rules) {}

  Status build();
  Network network;

private:
  static constexpr size_t mostSteps = 4 * Network::mostNodes;

  bool full() const { return steps > mostSteps; }
  NodeId add(Kind kind, uint32_t what, NodeId next);
  NodeId bytes(const Network::ByteSet &set, NodeId next);
  NodeId text(std::string_view text, NodeId next);
  NodeId split(NodeId one, NodeId other) {
    return add(Kind::Split, one, other);
  }

  struct Literals {
    const std::string_view *begin, *end;
  };
  NodeId translate(const Expression &expression, NodeId next);
  NodeId translateChoice(const Expression &choice, NodeId next);
  NodeId translateLiterals(Literals literals, size_t at, NodeId next,
                           int depth);
  NodeId translateRepeat(const Expression &repeat, NodeId next);
  NodeId translateSet(const Characters &set, NodeId next);
  RuleId ruleOf(const Characters &set);
  NodeId utf8(const Characters &set, NodeId next);

  const std::vector<Rule> &rules;
  std::map<std::array<uint64_t, 4>, uint32_t> setIndexes;
  std::map<std::vector<Characters::Range>, RuleId> setRules;
  std::vector<Characters> setBodies; // of these rules
  size_t steps = 0;
  NodeId never = 0; // a node from which no text goes on
};

NodeId NetworkBuilder::add(Kind kind, uint32_t what, NodeId next) {
  if (network.nodes.size() == Network::mostNodes)
    steps = mostSteps + 1;
  if (full())
    return never;
  network.nodes.push_back({kind, what, next});
  return static_cast<NodeId>(network.nodes.size() - 1);
}

NodeId NetworkBuilder::bytes(const Network::ByteSet &set, NodeId next) {
  std::array<uint64_t, 4> words;
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = (set >> 64 * i & Network::ByteSet(UINT64_MAX)).to_ullong();
  auto index = static_cast<uint32_t>(network.sets.size());
  auto [found, isNew] = setIndexes.try_emplace(words, index);
  if (isNew)
    network.sets.push_back(set);
  return add(Kind::Bytes, found->second, next);
}

NodeId NetworkBuilder::text(std::string_view text, NodeId next) {
  for (size_t i = text.size(); i-- > 0 && !full();) {
    Network::ByteSet set;
    set.set(static_cast<uint8_t>(text[i]));
    next = bytes(set, next);
  }
  return next;
}

NodeId NetworkBuilder::translate(const Expression &expression, NodeId next) {
  if (++steps > mostSteps)
    return never;
  switch (expression.kind) {
  case Expression::Kind::Literal:
    return text(expression.text, next);
  case Expression::Kind::Set:
    return translateSet(expression.set, next);
  case Expression::Kind::Call:
    return add(Kind::Call, expression.rule, next);
  case Expression::Kind::Sequence:
    for (size_t i = expression.parts.size(); i-- > 0;)
      next = translate(expression.parts[i], next);
    return next;
  case Expression::Kind::Choice:
    return translateChoice(expression, next);
  case Expression::Kind::Repeat:
    return translateRepeat(expression, next);
  }
  return never;
}

/// A choice among literals becomes a tree of their common beginnings.
NodeId NetworkBuilder::translateChoice(const Expression &choice, NodeId next) {
  std::vector<std::string_view> literals;
  for (const Expression &part : choice.parts)
    if (part.kind == Expression::Kind::Literal)
      literals.push_back(part.text);
  if (literals.size() == choice.parts.size() && !literals.empty()) {
    std::sort(literals.begin(), literals.end());
    return translateLiterals(
        {literals.data(), literals.data() + literals.size()}, 0, next, 0);
  }
  NodeId result = never;
  for (size_t i = choice.parts.size(); i-- > 0 && !full();) {
    NodeId part = translate(choice.parts[i], next);
    result = result == never ? part : split(part, result);
  }
  return result;
}

/// Sorted literals, which are equal before `at`: a branch for each next byte.
/// Where the tree is very deep, a branch for each literal.
NodeId NetworkBuilder::translateLiterals(Literals literals, size_t at,
                                         NodeId next, int depth) {
  if (++steps > mostSteps)
    return never;
  std::string_view low = *literals.begin, high = literals.end[-1];
  size_t same = at;
  while (same < low.size() && same < high.size() && low[same] == high[same])
    ++same;
  NodeId result = never;
  for (const std::string_view *one = literals.begin; one != literals.end;) {
    const std::string_view *stop = one + 1;
    bool ends = one->size() == same;
    while (stop != literals.end && depth < 200 &&
           (ends ? stop->size() == same : (*stop)[same] == (*one)[same]))
      ++stop;
    NodeId part = ends ? next
                  : stop == one + 1
                      ? text(one->substr(same), next)
                      : translateLiterals({one, stop}, same, next, depth + 1);
    result = result == never ? part : split(part, result);
    one = stop;
  }
  return text(low.substr(at, same - at), result);
}

NodeId NetworkBuilder::translateRepeat(const Expression &repeat, NodeId next) {
  const Expression &part = repeat.parts[0];
  uint32_t least = repeat.least;
  if (repeat.most == Expression::unbounded) {
    NodeId loop = split(next, next); // one of them becomes the part
    NodeId body = translate(part, loop);
    if (full())
      return never;
    network.nodes[loop].what = body;
    next = least > 0 ? body : loop;
    least -= least > 0;
  }
  // A part without nodes is the empty text: it needs no copies.
  auto copies = [&](uint32_t count, auto wrap) {
    for (uint32_t i = 0; i < count && !full(); ++i) {
      NodeId begin = wrap(translate(part, next));
      if (begin == next)
        return;
      next = begin;
    }
  };
  NodeId end = next;
  if (repeat.most != Expression::unbounded)
    copies(repeat.most - least, [&](NodeId begin) {
      return begin == next ? next : split(begin, end);
    });
  copies(least, [](NodeId begin) { return begin; });
  return next;
}

NodeId NetworkBuilder::translateSet(const Characters &set, NodeId next) {
  steps += set.ranges().size();
  Network::ByteSet ascii;
  for (auto [first, last] : set.ranges())
    for (uint32_t c = first; c <= std::min(last, 0x7Fu); ++c)
      ascii.set(c);
  Characters others = set.intersection({{0x80, Characters::last}});
  if (others.empty())
    return ascii.any() ? bytes(ascii, next) : never;
  NodeId rest = add(Kind::Call, ruleOf(others), next);
  return ascii.any() ? split(bytes(ascii, next), rest) : rest;
}

/// The rule of characters beyond ASCII.
RuleId NetworkBuilder::ruleOf(const Characters &set) {
  auto rule = static_cast<RuleId>(rules.size() + setBodies.size());
  auto [found, isNew] = setRules.try_emplace(set.ranges(), rule);
  if (isNew)
    setBodies.push_back(set);
  return found->second;
}

/// The bytes of characters beyond ASCII. A range of characters is cut until
/// each of its bytes is in a range of its own, whatever the others are.
NodeId NetworkBuilder::utf8(const Characters &set, NodeId next) {
  NodeId result = never;
  std::map<std::pair<std::string, NodeId>, NodeId> tails;
  auto addRange = [&](const std::string &low, const std::string &high) {
    NodeId begin = next;
    for (size_t i = low.size(); i-- > 0 && !full();) {
      Network::ByteSet set;
      for (int byte = static_cast<uint8_t>(low[i]);
           byte <= static_cast<uint8_t>(high[i]); ++byte)
        set.set(static_cast<size_t>(byte));
      if (i == 0) {
        begin = bytes(set, begin);
        break;
      }
      auto [tail, isNew] = tails.try_emplace({{low[i], high[i]}, begin}, never);
      if (isNew)
        tail->second = bytes(set, begin);
      begin = tail->second;
    }
    result = result == never ? begin : split(begin, result);
  };
  for (auto [first, last] : set.ranges())
    for (uint32_t from = first, to; from <= last && !full(); from = to + 1) {
      to = last;
      for (uint32_t end : {0x7FFu, 0xFFFFu}) // one number of bytes
        if (from <= end)
          to = std::min(to, end);
      for (uint32_t low : {0x3Fu, 0xFFFu, 0x3FFFFu}) { // the last bytes' bits
        if ((from & ~low) == (to & ~low))
          continue;
        if ((from & low) != 0)
          to = from | low;
        else if ((to & low) != low)
          to = (to & ~low) - 1;
      }
      addRange(utf8Of(from), utf8Of(to));
    }
  return result;
}

Status NetworkBuilder::build() {
  // Its set of bytes is empty.
  never = add(Kind::Bytes, 0, 0);
  network.sets.emplace_back();
  for (const Rule &rule : rules) {
    NodeId end = add(Kind::End, 0, 0);
    network.starts.push_back(translate(rule.body, end));
  }
  for (size_t i = 0; i < setBodies.size() && !full(); ++i) {
    NodeId end = add(Kind::End, 0, 0);
    network.starts.push_back(utf8(setBodies[i], end));
  }
  if (full())
    return Status(CRIA_RESOURCE_EXHAUSTED,
                  "the grammar needs more than " +
                      std::to_string(Network::mostNodes) +
                      " states: repeat less often, or list fewer texts");
  network.productive = network.reach(true);
  network.empty = network.reach(false);
  network.findFirsts();
  if (Status status = network.findRanks(rules); !status.ok())
    return status;
  network.findClasses();
  if (!network.productive[network.starts[0]])
    return Status(CRIA_INVALID_ARGUMENT, "no text matches the grammar");
  return Status();
}

Result<Network> Network::build(const std::vector<Rule> &rules) {
  NetworkBuilder builder(rules);
  Status status = builder.build();
  if (!status.ok())
    return status;
  return std::move(builder.network);
}

/// The nodes from which a text leads to the end of their rule. Without
/// `throughBytes`, the nodes from which the empty text does.
std::vector<bool> Network::reach(bool throughBytes) const {
  // The answer for node i changes the answers for the nodes askers[begins[i]]
  // up to, but not including, askers[begins[i + 1]].
  std::vector<uint32_t> begins(nodes.size() + 1), askers;
  auto forEdges = [&](auto visit) {
    for (NodeId id = 0; id < nodes.size(); ++id) {
      const Node &node = nodes[id];
      if (node.kind == Kind::End)
        continue;
      visit(node.next, id);
      if (node.kind != Kind::Bytes)
        visit(node.kind == Kind::Split ? node.what : starts[node.what], id);
    }
  };
  forEdges([&](NodeId to, NodeId) { ++begins[to]; });
  for (size_t i = 1; i < begins.size(); ++i)
    begins[i] += begins[i - 1];
  askers.resize(begins.back());
  forEdges([&](NodeId to, NodeId from) { askers[--begins[to]] = from; });

  std::vector<bool> reached(nodes.size());
  auto holds = [&](const Node &node) {
    switch (node.kind) {
    case Kind::End:
      return true;
    case Kind::Bytes:
      return throughBytes && sets[node.what].any() && reached[node.next];
    case Kind::Call:
      return reached[starts[node.what]] && reached[node.next];
    case Kind::Split:
      return reached[node.what] || reached[node.next];
    }
    return false;
  };
  std::vector<NodeId> work;
  auto mark = [&](NodeId id) {
    if (!reached[id] && holds(nodes[id])) {
      reached[id] = true;
      work.push_back(id);
    }
  };
  for (NodeId id = 0; id < nodes.size(); ++id)
    if (nodes[id].kind == Kind::End)
      mark(id);
  while (!work.empty()) {
    NodeId id = work.back();
    work.pop_back();
    for (uint32_t i = begins[id]; i < begins[id + 1]; ++i)
      mark(askers[i]);
  }
  return reached;
}

void Network::findFirsts() {
  first.resize(starts.size());
  std::vector<bool> seen(nodes.size());
  std::vector<NodeId> work;
  for (RuleId rule = 0; rule < starts.size(); ++rule) {
    auto visit = [&](NodeId id) {
      if (!seen[id] && productive[id]) {
        seen[id] = true;
        work.push_back(id);
      }
    };
    visit(starts[rule]);
    while (!work.empty()) {
      NodeId id = work.back();
      work.pop_back();
      const Node &node = nodes[id];
      if (node.kind == Kind::Bytes || node.kind == Kind::Call)
        first[rule].push_back(id);
      if (node.kind == Kind::Split)
        visit(node.what);
      if (node.kind == Kind::Split ||
          (node.kind == Kind::Call && nullable(node.what)))
        visit(node.next);
    }
  }
}

/// Orders the rules by a depth-first search, which also finds cycles.
Status Network::findRanks(const std::vector<Rule> &rules) {
  enum : uint8_t { isNew, isOpen, isDone };
  std::vector<uint8_t> states(starts.size(), isNew);
  std::vector<std::pair<RuleId, size_t>> path; // and the next of its firsts
  ranks.resize(starts.size());
  auto rank = static_cast<uint32_t>(starts.size());
  for (RuleId root = 0; root < starts.size(); ++root) {
    if (states[root] == isNew)
      path.push_back({root, 0});
    while (!path.empty()) {
      auto &[rule, at] = path.back();
      states[rule] = isOpen;
      if (at == first[rule].size()) {
        states[rule] = isDone;
        ranks[rule] = --rank;
        path.pop_back();
        continue;
      }
      const Node &node = nodes[first[rule][at++]];
      if (node.kind != Kind::Call || states[node.what] == isDone)
        continue;
      if (states[node.what] == isOpen) {
        std::string cycle =
            "rule " + quote(rules[node.what].name) + " may begin with itself";
        if (rule != node.what)
          cycle += ", by way of " + quote(rules[rule].name);
        return Status(CRIA_INVALID_ARGUMENT,
                      cycle + ": left recursion is not supported");
      }
      path.push_back({node.what, 0});
    }
  }
  return Status();
}

void Network::findClasses() {
  std::map<std::vector<bool>, uint8_t> numbers;
  for (size_t byte = 0; byte < 256; ++byte) {
    std::vector<bool> in;
    for (const ByteSet &set : sets)
      in.push_back(set[byte]);
    auto number = static_cast<uint8_t>(numbers.size());
    auto [found, isNew] = numbers.try_emplace(std::move(in), number);
    if (isNew)
      representative.push_back(static_cast<uint8_t>(byte));
    classes[byte] = found->second;
  }
}

} // namespace cria::grammar
