#include "runtime/text/tokenizer/AddedTokens.h"

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/Text.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>

namespace cria {

/// Added tokens are searched for at each place of a text, so they must be
/// short.
static constexpr size_t maxPatternBytes = 256;

/// A text of an added token is copied some six times while an index is made.
/// Real tokenizers have at most some thousands.
static constexpr size_t maxAddedTokens = 1 << 16;

static AddedToken readToken(const JsonCursor &place) {
  onlyKeys(place, {"id", "content", "single_word", "lstrip", "rstrip",
                   "normalized", "special"});
  AddedToken token;
  token.id = static_cast<int32_t>(place["id"].integer(0, maxTokenIds - 1));
  token.content = place["content"].string();
  token.singleWord = place["single_word"].boolean();
  token.stripLeft = place["lstrip"].boolean();
  token.stripRight = place["rstrip"].boolean();
  token.normalized = place["normalized"].boolean();
  token.special = place["special"].boolean();
  return token;
}

/// The origins of bytes that belong to a token, and of those that normalizers
/// add, such as the mark of Prepend.
static constexpr char isOwn = static_cast<char>(Origin::Given),
                      isInserted = static_cast<char>(Origin::Template);

/// Normalizes what is searched for.
static Status normalizePattern(AddedToken &token,
                               const std::vector<Normalizer> &normalizers,
                               Effort &effort) {
  TracedText pattern = {token.content,
                        std::string(token.content.size(), isOwn)};
  Status status;
  if (token.normalized)
    for (size_t i = 0; status.ok() && i < normalizers.size(); ++i)
      status = normalizers[i].apply(pattern, effort);
  token.pattern = std::move(pattern.bytes);
  if (pattern.origins.find(isOwn) != std::string::npos)
    token.own = std::move(pattern.origins);
  return status;
}

AddedTokens AddedTokens::read(const JsonCursor &list,
                              const Vocabulary &vocabulary,
                              const std::vector<Normalizer> &normalizers,
                              Effort &effort) {
  AddedTokens added;
  added.next = static_cast<int64_t>(vocabulary.size());
  size_t count = list.count(maxAddedTokens);
  for (size_t i = 0; i < count; ++i) {
    JsonCursor place = list.element(i);
    AddedToken token = readToken(place);
    if (!list.ok())
      return added;
    if (token.content.empty())
      continue;
    if (Status done = normalizePattern(token, normalizers, effort); !done.ok())
      place.fail(done.message(), done.code());
    added.add(std::move(token), place, vocabulary);
  }
  added.index(list);
  return added;
}

void AddedTokens::add(AddedToken token, const JsonCursor &place,
                      const Vocabulary &vocabulary) {
  if (token.pattern.size() > maxPatternBytes)
    place.fail("has " + std::to_string(token.pattern.size()) +
               " bytes, expected at most " + std::to_string(maxPatternBytes));
  if (!contents.insert(token.content).second)
    place.fail("repeats " + quote(token.content));
  int64_t expected;
  if (std::optional<int32_t> known = vocabulary.find(token.content))
    expected = *known;
  else
    expected = next++;
  if (token.id != expected)
    place.fail(quote(token.content) + " has id " + std::to_string(token.id) +
               ", expected " + std::to_string(expected) +
               ": that of the vocabulary, or the next free one");
  if (token.singleWord && !word)
    word =
        *Regex::compile(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}])");
  limit = std::max<int64_t>(limit, token.id + 1);
  byId.emplace(token.id, tokens.size());
  tokens.push_back(std::move(token));
}

/// Several tokens may become equal when they are normalized, such as "A" and
/// "a". The first one counts; special tokens come before the others. Hugging
/// Face takes any of them, a different one at each load.
void AddedTokens::index(const JsonCursor &list) {
  using Patterns = std::unordered_map<std::string, int32_t>;
  Patterns raw, normalized;
  for (bool special : {true, false})
    for (const AddedToken &token : tokens)
      if (token.special == special)
        (token.normalized ? normalized : raw).emplace(token.pattern, token.id);
  auto make = [&](Patterns &patterns) {
    Set set;
    patterns.erase("");
    for (const auto &[pattern, id] : patterns)
      set.first.set(static_cast<uint8_t>(pattern[0]));
    set.patterns = Vocabulary::make({patterns.begin(), patterns.end()}, list);
    return set;
  };
  plain = make(raw);
  inNormalized = make(normalized);
}

const AddedToken *AddedTokens::find(int64_t id) const {
  if (id < 0 || id >= limit)
    return nullptr;
  auto place = byId.find(static_cast<int32_t>(id));
  return place == byId.end() ? nullptr : &tokens[place->second];
}

std::optional<int32_t> AddedTokens::find(std::string_view text) const {
  for (const AddedToken &token : tokens)
    if (token.content == text)
      return token.id;
  return std::nullopt;
}

int32_t AddedTokens::Set::longest(std::string_view text, size_t &at,
                                  size_t &read) const {
  if (!first[static_cast<uint8_t>(text[at])])
    return -1;
  int32_t id = -1;
  Vocabulary::Place place = Vocabulary::start;
  for (size_t end = at; end < text.size();) {
    place = patterns.next(place, text[end++]);
    ++read;
    if (place == Vocabulary::nowhere)
      break;
    if (patterns.idAt(place) >= 0) {
      id = patterns.idAt(place);
      at = end;
    }
  }
  return id;
}

/// The place where the character that ends at `end` begins.
static size_t before(std::string_view text, size_t end) {
  while (end > 0 && (text[--end] & 0xC0) == 0x80)
    ;
  return end;
}

/// Whether no word continues across `begin` or `end`.
bool AddedTokens::standsAlone(std::string_view text, size_t begin, size_t end,
                              Effort &effort) const {
  size_t left = before(text, begin);
  std::string_view neighbours[] = {text.substr(left, begin - left), {}};
  if (end < text.size())
    neighbours[1] = text.substr(end, characterLength(text, end));
  bool alone = true;
  for (std::string_view character : neighbours) {
    Status status = word->find(character, effort, [&](Span span) {
      alone &= !span.match;
      return Status();
    });
    alone &= status.ok();
  }
  return alone;
}

/// The place where the white space that ends at `end` begins, not before
/// `least`.
static size_t spaceBefore(std::string_view text, size_t least, size_t end) {
  while (end > least) {
    size_t begin = before(text, end), at = begin;
    if (!isWhiteSpace(takeCharacter(text, at)))
      break;
    end = begin;
  }
  return end;
}

/// The place where the white space that begins at `begin` ends.
static size_t spaceAfter(std::string_view text, size_t begin) {
  for (size_t at = begin; at < text.size(); begin = at)
    if (!isWhiteSpace(takeCharacter(text, at)))
      break;
  return begin;
}

/// The cost of a byte of the text, of comparing a byte with a pattern, and of a
/// token that is found.
static constexpr uint64_t workPerByte = 8, workPerCompare = 32,
                          workPerToken = 256;
static constexpr const char *search = "looking for added tokens";

/// Whether the template wrote `token` at bytes with these origins: none of its
/// own bytes is Given, and the first is no Name's.
static bool isTemplates(const AddedToken &token, std::string_view origins) {
  Origin first = Origin::Given;
  for (size_t i = 0; i < origins.size(); ++i) {
    if (!token.own.empty() && token.own[i] == isInserted)
      continue;
    auto origin = static_cast<Origin>(origins[i]);
    first = std::min(first, origin);
    if (origin == Origin::Given || first == Origin::Name)
      return false;
  }
  return true;
}

/// The longest token at `at`, or a shorter one if others wrote a part of it.
/// What they wrote alone is passed over as a whole, as special tokens are that
/// stay text.
AddedTokens::Found AddedTokens::findAt(const Set &set, const Piece &piece,
                                       size_t at, uint64_t &work) const {
  size_t after = at + 1;
  for (std::string_view text = piece.text;;) {
    size_t end = at, read = 0;
    int32_t id = set.longest(text, end, read);
    work += workPerCompare * read + (id < 0 ? 0 : workPerToken);
    if (id < 0)
      return {nullptr, after};
    const AddedToken *token = find(id);
    std::string_view origins = piece.origins;
    if (!origins.empty())
      origins = origins.substr(at, end - at);
    if (!token->special || isTemplates(*token, origins))
      return {token, end};
    if (origins.find(static_cast<char>(Origin::Template)) == origins.npos)
      return {nullptr, end};
    text = text.substr(0, end - 1);
  }
}

/// Works as Hugging Face does. The search continues after each token, although
/// rstrip may have taken the white space that the next token begins with. The
/// next token counts, too. If it ends within the taken white space, the rest of
/// that white space is passed on again.
Status AddedTokens::split(Piece piece, Wanted wanted, Effort &effort,
                          PieceSink sink) const {
  const Set &set = wanted.normalized ? inNormalized : plain;
  std::string_view text = piece.text;
  if (!effort.spend(workPerByte * (text.size() + 1)))
    return Effort::tooLong(search);
  size_t done = 0, space = 0; // `space`: up to where white space was looked at
  auto emit = [&](size_t begin, size_t end, int32_t id) {
    return begin >= end ? Status() : sink(piece.part(begin, end, id));
  };
  for (size_t at = 0; set.first.any() && at < text.size();) {
    size_t begin = at;
    uint64_t work = 0;
    Found found = findAt(set, piece, at, work);
    if (!effort.spend(work))
      return Effort::tooLong(search);
    const AddedToken *token = found.token;
    size_t end = at = found.end;
    if (!token || (token->special && !wanted.special))
      continue;
    if (token->singleWord && !standsAlone(text, begin, end, effort))
      continue;
    if (token->stripLeft)
      begin = std::max(spaceBefore(text, done, begin), done);
    if (token->stripRight)
      end = space = spaceAfter(text, std::max(space, end));
    Status status = emit(done, begin, -1);
    if (status.ok())
      status = emit(begin, end, token->id);
    if (!status.ok())
      return status;
    done = std::max(end, begin);
  }
  return emit(done, text.size(), -1);
}

} // namespace cria
