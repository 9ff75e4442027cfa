#include "runtime/text/grammar/Grammar.h"

#include "runtime/base/Json.h"
#include "runtime/text/grammar/Gbnf.h"
#include "runtime/text/grammar/Regex.h"
#include "runtime/text/grammar/schema/Schema.h"

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
                    "expected end ids of at least 0, got " +
                        std::to_string(id));
  Result<std::vector<Rule>> rules = parse(notation, source);
  if (!rules.ok())
    return rules.status();
  Result<Network> network = Network::build(*rules);
  if (!network.ok())
    return network.status();
  return std::shared_ptr<const Grammar>(
      new Grammar(std::move(*network), std::move(tokens), std::move(ends)));
}

bool Grammar::isEnd(int64_t id) const {
  return std::find(ends.begin(), ends.end(), id) != ends.end();
}

// ---- Matchers --------------------------------------------------------------
// A call locks the grammar while it uses the automaton.

Result<Matcher> Matcher::create(std::shared_ptr<const Grammar> grammar) {
  Matcher made;
  made.grammar = std::move(grammar);
  std::lock_guard lock(made.grammar->mutex);
  Result<StateId> start = made.grammar->automaton.start();
  if (!start.ok())
    return start.status();
  made.settle(*start);
  return made;
}

/// The state's number, which may be another one since the last call.
Result<StateId> Matcher::current() const {
  if (grammar->automaton.isLarge())
    grammar->automaton.forget();
  if (*state == Automaton::lost)
    return Status(CRIA_RESOURCE_EXHAUSTED, "the text is nested too deeply");
  return *state;
}

void Matcher::settle(StateId next) {
  Automaton &automaton = grammar->automaton;
  state = automaton.hold(next);
  complete = automaton.isComplete(next);
  finished = complete && !automaton.goesOn(next);
}

Status Matcher::mask(uint32_t *bits, size_t words) {
  std::fill(bits, bits + words, 0);
  if (!ended) {
    std::lock_guard lock(grammar->mutex);
    Result<StateId> here = current();
    if (!here.ok())
      return here.status();
    Status status =
        grammar->automaton.mask(*here, *grammar->tokens, bits, words);
    if (!status.ok())
      return status;
  }
  for (int32_t id : grammar->ends) {
    if (static_cast<size_t>(id) / 32 >= words)
      continue;
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

std::vector<int32_t> Matcher::forced(size_t most) {
  std::vector<int32_t> ids;
  std::lock_guard lock(grammar->mutex);
  Result<StateId> here = current();
  if (ended || !here.ok())
    return ids;
  const TokenTrie &tokens = *grammar->tokens;
  std::string text = grammar->automaton.forced(*here, TokenTrie::mostBytes);
  for (std::string_view rest = text; ids.size() < most;) {
    int32_t id = tokens.longest(rest);
    if (id < 0)
      break;
    ids.push_back(id);
    rest.remove_prefix(tokens.bytes(id).size());
  }
  return ids;
}

size_t Matcher::masksAfter(const int32_t *ids, size_t count, uint32_t *masks,
                           size_t words) const {
  Matcher next = *this;
  size_t i = 0;
  while (i < count && next.accept(ids[i]).ok() &&
         next.mask(masks + i * words, words).ok())
    ++i;
  return i;
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
  std::lock_guard lock(grammar->mutex);
  Result<StateId> here = current();
  if (!here.ok())
    return here.status();
  Result<StateId> next = grammar->automaton.step(*here, bytes);
  if (!next.ok())
    return next.status();
  if (*next == Automaton::dead)
    return refused;
  settle(*next);
  return Status();
}

} // namespace cria::grammar
