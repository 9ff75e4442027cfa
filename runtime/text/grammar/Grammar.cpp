#include "runtime/text/grammar/Grammar.h"

#include "runtime/base/Json.h"
#include "runtime/text/grammar/Gbnf.h"
#include "runtime/text/grammar/Regex.h"
#include "runtime/text/grammar/Schema.h"

#include <algorithm>
#include <string>

namespace cria::grammar {

static Result<std::vector<Rule>> parse(Notation notation,
                                       std::string_view source) {
  if (notation == Notation::JsonSchema)
    return parseSchema(source);
  if (source.size() > mostBytes)
    return Status(CRIA_RESOURCE_EXHAUSTED,
                  "the grammar has " + std::to_string(source.size()) +
                      " bytes, expected at most " + std::to_string(mostBytes));
  if (notation == Notation::Gbnf)
    return parseGbnf(source);
  Result<Expression> whole = parseRegex(source, Match::Whole);
  if (!whole.ok())
    return whole.status();
  return std::vector<Rule>{{"root", std::move(*whole)}};
}

Result<std::shared_ptr<const Grammar>>
Grammar::create(std::shared_ptr<const TokenTrie> tokens, Notation notation,
                std::string_view source, std::vector<int32_t> ends) {
  for (int32_t id : ends)
    if (id < 0)
      return Status(CRIA_INVALID_ARGUMENT,
                    "end id " + std::to_string(id) + " is none");
  Result<std::vector<Rule>> rules = parse(notation, source);
  if (!rules.ok())
    return rules.status();
  Result<Network> network = Network::build(*rules);
  if (!network.ok())
    return network.status();
  return std::shared_ptr<const Grammar>(
      new Grammar(std::move(*network), std::move(tokens), std::move(ends)));
}

/// The automaton to use: another one when it has grown large.
std::shared_ptr<Grammar::Shared> Grammar::current() const {
  std::lock_guard lock(mutex);
  if (!shared || shared->isLarge)
    shared = std::make_shared<Shared>(network);
  return shared;
}

bool Grammar::isEnd(int64_t id) const {
  return std::find(ends.begin(), ends.end(), id) != ends.end();
}

Result<Matcher> Matcher::create(std::shared_ptr<const Grammar> grammar) {
  Matcher made;
  made.shared = grammar->current();
  made.grammar = std::move(grammar);
  std::lock_guard lock(made.shared->mutex);
  Result<StateId> start = made.shared->automaton.start();
  if (!start.ok())
    return start.status();
  made.settle(*start);
  return made;
}

/// Goes on with `next`, of the automaton that is locked.
void Matcher::settle(StateId next) {
  Automaton &automaton = shared->automaton;
  state = next;
  complete = automaton.isComplete(state);
  finished = complete && !automaton.goesOn(state);
  shared->isLarge = automaton.memory() > Automaton::mostMemory;
}

/// Moves to the grammar's current automaton.
Status Matcher::move() {
  std::shared_ptr<Grammar::Shared> current = grammar->current();
  if (current == shared)
    return Status();
  std::scoped_lock lock(shared->mutex, current->mutex);
  Result<StateId> taken = current->automaton.take(shared->automaton, state);
  if (!taken.ok())
    return taken.status();
  state = *taken;
  shared = std::move(current);
  return Status();
}

Status Matcher::mask(uint32_t *bits, size_t words) {
  auto last = static_cast<size_t>(grammar->tokens->idLimit() - 1);
  for (int32_t id : grammar->ends)
    last = std::max(last, static_cast<size_t>(id));
  if (words <= last / 32)
    return Status(CRIA_INVALID_ARGUMENT,
                  "expected " + std::to_string(last / 32 + 1) +
                      " words or more for ids up to " + std::to_string(last) +
                      ", got " + std::to_string(words));
  std::fill(bits, bits + words, 0);
  if (!ended) {
    if (Status status = move(); !status.ok())
      return status;
    std::lock_guard lock(shared->mutex);
    Status status = shared->automaton.mask(state, *grammar->tokens, bits);
    if (!status.ok())
      return status;
    settle(state);
  }
  for (int32_t id : grammar->ends) {
    uint32_t bit = 1u << id % 32;
    bits[id / 32] &= ~bit;
    if (complete && !ended)
      bits[id / 32] |= bit;
  }
  if (std::any_of(bits, bits + words, [](uint32_t word) { return word != 0; }))
    return Status();
  return Status(CRIA_FAILED_PRECONDITION,
                ended      ? "the text has ended"
                : finished ? "the text is complete, and no id ends it"
                           : "no token of the vocabulary goes on with the text "
                             "as the grammar says");
}

Status Matcher::accept(int64_t id) {
  Status refused(CRIA_INVALID_ARGUMENT,
                 "id " + std::to_string(id) +
                     (ended ? " comes after the end of the text"
                            : " may not come next in the grammar"));
  if (ended)
    return refused;
  if (grammar->isEnd(id)) {
    if (!complete)
      return refused;
    ended = finished = true;
    return Status();
  }
  std::string_view bytes = grammar->tokens->bytes(id);
  if (bytes.empty())
    return refused;
  if (Status status = move(); !status.ok())
    return status;
  std::lock_guard lock(shared->mutex);
  Result<StateId> next = shared->automaton.step(state, bytes);
  if (!next.ok())
    return next.status();
  if (*next == Automaton::dead)
    return refused;
  settle(*next);
  return Status();
}

} // namespace cria::grammar
