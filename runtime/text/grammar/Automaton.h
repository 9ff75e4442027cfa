/// Recognizes the texts of a network, byte by byte.
///
/// A text may be read in several ways at once, each at a node of the network
/// and with a stack of the calls that it is in. A state holds all ways:
///
///   items    (node, frame): a node Bytes, and the top of a stack
///   frame    a set of returns (node, frame): where a call goes on when its
///            rule ends, and the rest of the stack
///
/// Stacks share their tails. They also share their tops: all calls of a rule
/// between two bytes go on from one frame, so an ambiguous grammar has few
/// items where it has exponentially many stacks. A call that is the last thing
/// in its rule adds its caller's returns in place of a return of its own, so
/// that lists do not grow stacks (a tail call).
///
/// Frames are made from the returns up, one for each set of returns, and states
/// one for each set of items. So equal states have equal numbers, and the
/// automaton is a DFA that is made as it is needed: a step is a look into a
/// table from the second time on, and a state keeps its mask.
///
/// After a byte, first the ways that were there go on: ends of rules return,
/// calls are noted. Then the called rules begin, in the order of their ranks: a
/// rule's callers are all known before its frame is made. There is such an
/// order because no rule begins with itself. A rule that is called and gives
/// the empty text is stepped over at the call; its own end, with nothing read,
/// is then ignored.
///
/// What the automaton remembers grows until its caller says `forget`. That
/// keeps the states that somebody holds, and the frames that they reach; these
/// get other numbers. So a caller that comes back to a state later holds it,
/// and its handle has the state's present number.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/Network.h"
#include "runtime/text/grammar/TokenTrie.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cria::grammar {

using StateId = uint32_t;

class Automaton {
public:
  /// No text goes on from here.
  static constexpr StateId dead = 0;
  /// `lost` is the number of a state that was too large to keep.
  static constexpr StateId lost = UINT32_MAX - 1;
  /// Bytes that states, frames and masks may take, beside what `forget` kept,
  /// until the caller should call `forget` again; and the most that a single
  /// call may add.
  static constexpr size_t mostMemory = 48u << 20;
  /// The most work of a call, in units of some ten nanoseconds.
  static constexpr uint64_t mostWork = 1u << 25;
  /// The most items of a state.
  static constexpr size_t mostItems = 1u << 14;

  /// `network` must outlive the automaton.
  explicit Automaton(const Network &network);

  /// The state before a text.
  Result<StateId> start();
  /// A handle of the state, with its number. Equal states have one handle.
  std::shared_ptr<const StateId> hold(StateId state);
  /// Whether `forget` would free a lot.
  bool isLarge() const { return used > kept + mostMemory; }
  size_t memory() const { return used; }
  /// Forgets all but the states whose handles somebody has. A state that
  /// reaches too many frames, because its text is nested deeply, is lost.
  void forget();

  /// The state after some bytes. RESOURCE_EXHAUSTED if that takes too much work
  /// or memory.
  Result<StateId> step(StateId state, std::string_view bytes);
  /// The bytes that follow as long as there is one way to go on, and it takes
  /// no more work than a token may; at most `most`.
  std::string forced(StateId state, size_t most);
  /// Whether the bytes so far are a text of the grammar.
  bool isComplete(StateId state) const { return states[state].complete; }
  /// Whether a byte may follow.
  bool goesOn(StateId state) const { return !states[state].items.empty(); }

  /// The ids of `trie` whose bytes may follow: the lowest id in the lowest bit
  /// of `count` words, which are 0 before. Leaves out ids that the words have
  /// no bits for. Has the errors of `step`.
  Status mask(StateId state, const TokenTrie &trie, uint32_t *bits,
              size_t count);

private:
  using FrameId = uint32_t;
  /// A node and a frame, as item or return.
  using Place = std::pair<NodeId, FrameId>;
  using Places = std::vector<Place>;
  static constexpr NodeId accept = UINT32_MAX; // returns of the whole text
  static constexpr StateId unknown = UINT32_MAX;
  static constexpr FrameId notTaken = UINT32_MAX;

  struct State {
    Places items;
    bool complete = false;
    std::vector<StateId> next; // by class of byte
    bool hasMask = false;
    std::vector<uint32_t> words;     // the mask: all words, or
    std::vector<int32_t> ids;        // few ids
    std::shared_ptr<StateId> handle; // null until somebody holds the state
  };
  struct Hash {
    size_t operator()(const Places &places) const;
  };

  StateId stepClass(StateId state, size_t byteClass) {
    State &from = states[state];
    if (!from.next.empty() && from.next[byteClass] != unknown)
      return from.next[byteClass];
    return makeStep(state, byteClass);
  }
  StateId makeStep(StateId state, size_t byteClass);
  void beginStep();
  StateId close();
  void push(Place place);
  void goOn(Place place);
  void noteCall(const Network::Node &node, FrameId frame);
  void begin(RuleId rule, FrameId frame);
  Status walk(StateId state, const TokenTrie &trie);
  StateId take(const Automaton &other, StateId state,
               std::vector<FrameId> &taken);
  FrameId frameOf(Places returns);
  StateId stateOf(Places items, bool complete);
  bool spend(uint64_t units);
  Status check() const;
  void beginWork();

  const Network *network;
  std::vector<Places> frames; // the returns of each, sorted
  std::vector<State> states;
  std::unordered_map<Places, FrameId, Hash> frameIds;
  std::unordered_map<Places, StateId, Hash> stateIds[2]; // by `complete`
  size_t used = 0, kept = 0; // bytes: of all, and of what `forget` kept

  // Of the current step.
  Places work, items;
  std::set<Place> seen;
  bool complete = false;
  std::map<uint32_t, std::pair<RuleId, Places>> calls; // by rank

  // Of the current call.
  uint64_t left = 0;
  size_t usedBefore = 0;
  bool tooAmbiguous = false;
};

} // namespace cria::grammar
