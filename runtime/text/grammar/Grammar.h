/// Grammars over the tokens of a vocabulary: which ids may come next.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/Automaton.h"
#include "runtime/text/grammar/TokenTrie.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace cria::grammar {

/// The notation of a grammar.
enum class Notation { JsonSchema, Gbnf, Regex };

/// The most bytes of a grammar in GBNF, and of a regular expression; a schema
/// may have 4 MiB.
inline constexpr size_t mostBytes = 256u << 10;

/// A grammar and a vocabulary; immutable but for what it remembers. Threads may
/// share one.
class Grammar {
public:
  /// `ends` are the ids that end a text. An error names the place in `source`.
  static Result<std::shared_ptr<const Grammar>>
  create(std::shared_ptr<const TokenTrie> tokens, Notation notation,
         std::string_view source, std::vector<int32_t> ends);

private:
  friend class Matcher;

  Grammar(Network network, std::shared_ptr<const TokenTrie> tokens,
          std::vector<int32_t> ends)
      : network(std::move(network)), tokens(std::move(tokens)),
        ends(std::move(ends)), automaton(this->network) {}
  bool isEnd(int64_t id) const;

  Network network;
  std::shared_ptr<const TokenTrie> tokens;
  std::vector<int32_t> ends;
  mutable std::mutex mutex; // of `automaton` and of the handles of its states
  mutable Automaton automaton;
};

/// A text of a grammar, as far as it has come. Copies are cheap: they share
/// all. A matcher keeps its own state alive, and no more of what the grammar
/// remembers.
class Matcher {
public:
  static Result<Matcher> create(std::shared_ptr<const Grammar> grammar);

  /// The ids that may come next, the lowest in the lowest bit of `words` words;
  /// an end id may where the text is complete. Leaves out ids that the words
  /// have no bits for. FAILED_PRECONDITION if no id may come.
  Status mask(uint32_t *bits, size_t words);
  /// Takes the next id. INVALID_ARGUMENT if it may not come. After an error
  /// the text is as it was.
  Status accept(int64_t id);
  /// Ids that probably come next: where the grammar has the text go on in one
  /// way alone, the longest tokens that spell it, at most `most`.
  std::vector<int32_t> forced(size_t most);
  /// The masks after each of the ids, `words` words each, without taking them.
  /// Returns the number of ids up to the first that may not come, or after
  /// which none may.
  size_t masksAfter(const int32_t *ids, size_t count, uint32_t *masks,
                    size_t words) const;
  /// Whether the text so far is one of the grammar.
  bool isComplete() const { return complete; }
  /// Whether the text is complete and nothing can follow it.
  bool isFinished() const { return finished; }

private:
  Matcher() = default;
  Result<StateId> current() const;
  void settle(StateId next);

  std::shared_ptr<const Grammar> grammar;
  std::shared_ptr<const StateId> state; // a handle of grammar->automaton
  bool complete = false, finished = false, ended = false;
};

} // namespace cria::grammar
