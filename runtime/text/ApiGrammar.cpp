#include "runtime/text/Handles.h"

#include "runtime/text/grammar/Grammar.h"

using namespace cria;

struct cria_grammar {
  std::shared_ptr<const grammar::Grammar> object;
};

struct cria_matcher {
  grammar::Matcher object;
};

/// The tokens of a tokenizer, made once.
static Result<std::shared_ptr<const grammar::TokenTrie>>
tokensOf(const cria_tokenizer &tokenizer) {
  std::lock_guard lock(tokenizer.mutex);
  if (tokenizer.tokens)
    return tokenizer.tokens;
  auto made = grammar::TokenTrie::create(*tokenizer.object);
  if (made.ok())
    tokenizer.tokens = *made;
  return made;
}

static Result<grammar::Notation> notationOf(int32_t kind) {
  switch (kind) {
  case CRIA_GRAMMAR_JSON_SCHEMA:
    return grammar::Notation::JsonSchema;
  case CRIA_GRAMMAR_GBNF:
    return grammar::Notation::Gbnf;
  case CRIA_GRAMMAR_REGEX:
    return grammar::Notation::Regex;
  default:
    return Status(CRIA_INVALID_ARGUMENT, "kind is " + std::to_string(kind) +
                                             ", expected a cria_grammar_kind");
  }
}

cria_status cria_grammar_create(const cria_tokenizer *tokenizer, int32_t kind,
                                const char *source, size_t size,
                                const int32_t *end_ids, size_t end_count,
                                cria_grammar **grammar, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(tokenizer, "tokenizer"), notNull(source, "source"),
               end_count ? notNull(end_ids, "end_ids") : Status(),
               notNull(grammar, "grammar")});
    if (!status.ok())
      return status;
    *grammar = nullptr;
    Result<grammar::Notation> notation = notationOf(kind);
    if (!notation.ok())
      return notation.status();
    auto tokens = tokensOf(*tokenizer);
    if (!tokens.ok())
      return tokens.status();
    auto made = grammar::Grammar::create(*tokens, *notation, {source, size},
                                         {end_ids, end_ids + end_count});
    if (made.ok())
      *grammar = new cria_grammar{*made};
    return made.status();
  });
}

void cria_grammar_free(cria_grammar **grammar) { freeHandle(grammar); }

cria_status cria_matcher_create(const cria_grammar *grammar,
                                cria_matcher **matcher, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{grammar, "grammar"}, {matcher, "matcher"}});
    if (!status.ok())
      return status;
    *matcher = nullptr;
    auto made = grammar::Matcher::create(grammar->object);
    if (made.ok())
      *matcher = new cria_matcher{std::move(*made)};
    return made.status();
  });
}

cria_status cria_matcher_copy(const cria_matcher *from, cria_matcher **matcher,
                              cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{from, "from"}, {matcher, "matcher"}});
    if (!status.ok())
      return status;
    *matcher = nullptr;
    *matcher = new cria_matcher(*from);
    return status;
  });
}

void cria_matcher_free(cria_matcher **matcher) { freeHandle(matcher); }

cria_status cria_matcher_mask(cria_matcher *matcher, uint32_t *bits,
                              size_t words, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{matcher, "matcher"}, {bits, "bits"}});
    return status.ok() ? matcher->object.mask(bits, words) : status;
  });
}

cria_status cria_matcher_forced(cria_matcher *matcher, int32_t *ids,
                                size_t most, size_t *count, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{matcher, "matcher"}, {count, "count"}});
    if (status.ok() && most)
      status = notNull(ids, "ids");
    if (!status.ok())
      return status;
    *count = 0;
    std::vector<int32_t> forced = matcher->object.forced(most);
    std::copy(forced.begin(), forced.end(), ids);
    *count = forced.size();
    return status;
  });
}

cria_status cria_matcher_masks_after(const cria_matcher *matcher,
                                     const int32_t *ids, size_t *count,
                                     uint32_t *masks, size_t words,
                                     cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{matcher, "matcher"}, {count, "count"}});
    if (status.ok() && *count)
      status = notNull({{ids, "ids"}, {masks, "masks"}});
    if (status.ok())
      *count = matcher->object.masksAfter(ids, *count, masks, words);
    return status;
  });
}

cria_status cria_matcher_accept(cria_matcher *matcher, int32_t id,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(matcher, "matcher");
    return status.ok() ? matcher->object.accept(id) : status;
  });
}

int cria_matcher_complete(const cria_matcher *matcher) {
  return matcher && matcher->object.isComplete();
}

int cria_matcher_finished(const cria_matcher *matcher) {
  return matcher && matcher->object.isFinished();
}
