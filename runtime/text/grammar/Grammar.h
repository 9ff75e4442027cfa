/// Grammars over the tokens of a vocabulary: which ids may come next.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/Automaton.h"
#include "runtime/text/grammar/TokenTrie.h"

#include <atomic>
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

  /// An automaton, which one thread uses at a time.
  struct Shared {
    explicit Shared(const Network &network) : automaton(network) {}
    std::mutex mutex;
    Automaton automaton;
    std::atomic<bool> isLarge{false};
  };

  Grammar(Network network, std::shared_ptr<const TokenTrie> tokens,
          std::vector<int32_t> ends)
      : network(std::move(network)), tokens(std::move(tokens)),
        ends(std::move(ends)) {}
  std::shared_ptr<Shared> current() const;
  bool isEnd(int64_t id) const;

  Network network;
  std::shared_ptr<const TokenTrie> tokens;
  std::vector<int32_t> ends;
  mutable std::mutex mutex;
  /// Begun anew when it has grown large; matchers move to the new one.
  mutable std::shared_ptr<Shared> shared;
};

/// A text of a grammar, as far as it has come. Copies are cheap: they share all
/// but the number of a state.
class Matcher {
public:
  static Result<Matcher> create(std::shared_ptr<const Grammar> grammar);

  /// The ids that may come next, the lowest in the lowest bit of `words` words;
  /// an end id may where the text is complete. INVALID_ARGUMENT if the
  /// tokenizer has more ids; FAILED_PRECONDITION if no id may come.
  Status mask(uint32_t *bits, size_t words);
  /// Takes the next id. INVALID_ARGUMENT, and nothing changes, if it may not
  /// come.
  Status accept(int64_t id);
  /// Whether the text so far is one of the grammar.
  bool isComplete() const { return complete; }
  /// Whether the text is complete and nothing can follow it.
  bool isFinished() const { return finished; }

private:
  Matcher() = default;
  void settle(StateId next);
  Status move();

  std::shared_ptr<const Grammar> grammar;
  std::shared_ptr<Grammar::Shared> shared;
  StateId state = Automaton::dead;
  bool complete = false, finished = false, ended = false;
};

} // namespace cria::grammar
