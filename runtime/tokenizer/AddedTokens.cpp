#include "runtime/tokenizer/AddedTokens.h"

#include "runtime/tokenizer/Json.h"
#include "runtime/tokenizer/Text.h"
#include "runtime/tokenizer/Unicode.h"

#include <algorithm>

namespace cria {

/// An added token is looked for at each place of a text, so it stays short.
static constexpr size_t maxPatternBytes = 256;

static AddedToken readToken(const JsonCursor &place) {
  onlyKeys(place, {"id", "content", "single_word", "lstrip", "rstrip",
                   "normalized", "special"});
  AddedToken token;
  token.id = static_cast<int32_t>(place["id"].integer(0, maxTokenIds - 1));
  token.content = place["content"].string();
  token.pattern = token.content;
  token.singleWord = place["single_word"].boolean();
  token.stripLeft = place["lstrip"].boolean();
  token.stripRight = place["rstrip"].boolean();
  token.normalized = place["normalized"].boolean();
  token.special = place["special"].boolean();
  return token;
}

AddedTokens AddedTokens::read(const JsonCursor &list,
                              const Vocabulary &vocabulary,
                              const std::vector<Normalizer> &normalizers) {
  AddedTokens added;
  added.next = static_cast<int64_t>(vocabulary.size());
  Effort effort(list.raw().size() * maxPatternBytes);
  for (const JsonCursor &place : list.elements(maxTokenIds)) {
    AddedToken token = readToken(place);
    if (!list.ok())
      return added;
    if (token.content.empty())
      continue;
    for (size_t i = 0; token.normalized && i < normalizers.size(); ++i) {
      Status done = normalizers[i].apply(token.pattern, effort);
      if (!done.ok())
        place.fail(done.message(), done.code());
    }
    added.add(std::move(token), place, vocabulary);
  }
  added.plain = added.index(false, list);
  added.inNormalized = added.index(true, list);
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
  tokens.emplace(token.id, std::move(token));
}

/// Of several tokens with one pattern, the first counts.
AddedTokens::Set AddedTokens::index(bool normalized,
                                    const JsonCursor &list) const {
  Set set;
  std::map<std::string, int32_t> patterns;
  for (const auto &[id, token] : tokens)
    if (token.normalized == normalized && !token.pattern.empty()) {
      patterns.emplace(token.pattern, id);
      set.first.set(static_cast<uint8_t>(token.pattern[0]));
    }
  set.patterns = Vocabulary::make({patterns.begin(), patterns.end()}, list);
  return set;
}

const AddedToken *AddedTokens::find(int64_t id) const {
  if (id < 0 || id >= limit)
    return nullptr;
  auto place = tokens.find(static_cast<int32_t>(id));
  return place == tokens.end() ? nullptr : &place->second;
}

int32_t AddedTokens::Set::longest(std::string_view text, size_t &at) const {
  if (!first[static_cast<uint8_t>(text[at])])
    return -1;
  int32_t id = -1;
  Vocabulary::Place place = Vocabulary::start;
  for (size_t end = at; end < text.size();) {
    place = patterns.next(place, text[end++]);
    if (place == Vocabulary::nowhere)
      break;
    if (patterns.idAt(place) >= 0) {
      id = patterns.idAt(place);
      at = end;
    }
  }
  return id;
}

/// Where the character that ends at `end` begins.
static size_t before(std::string_view text, size_t end) {
  while (end > 0 && (text[--end] & 0xC0) == 0x80)
    ;
  return end;
}

/// Whether no word goes on across `begin` or `end`.
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

/// Where the white space that ends at `end` begins, at `least` the earliest.
static size_t spaceBefore(std::string_view text, size_t least, size_t end) {
  while (end > least) {
    size_t begin = before(text, end), at = begin;
    if (!isWhiteSpace(takeCharacter(text, at)))
      break;
    end = begin;
  }
  return end;
}

/// Where the white space that begins at `begin` ends.
static size_t spaceAfter(std::string_view text, size_t begin) {
  for (size_t at = begin; at < text.size(); begin = at)
    if (!isWhiteSpace(takeCharacter(text, at)))
      break;
  return begin;
}

Status AddedTokens::split(Piece piece, bool normalized, Effort &effort,
                          PieceSink sink) const {
  const Set &set = normalized ? inNormalized : plain;
  std::string_view text = piece.text;
  size_t done = 0, space = 0; // `space`: up to where white space was looked at
  auto emit = [&](size_t begin, size_t end, int32_t id) {
    return begin == end ? Status()
                        : sink({text.substr(begin, end - begin),
                                piece.atHead && begin == 0, id});
  };
  for (size_t at = 0; set.first.any() && at < text.size();) {
    size_t begin = at;
    int32_t id = set.longest(text, at);
    if (id < 0) {
      ++at;
      continue;
    }
    if (effort.late())
      return Status(CRIA_INVALID_ARGUMENT,
                    "looking for added tokens takes too long at byte " +
                        std::to_string(at) + " of the text");
    const AddedToken *token = find(id);
    size_t end = at;
    if (token->singleWord && !standsAlone(text, begin, end, effort))
      continue;
    if (token->stripLeft)
      begin = spaceBefore(text, done, begin);
    if (token->stripRight)
      end = space = spaceAfter(text, std::max(space, end));
    Status status = emit(done, begin, -1);
    if (status.ok())
      status = emit(begin, std::max(end, begin + 1), token->id);
    if (!status.ok())
      return status;
    done = end;
  }
  return emit(done, text.size(), -1);
}

} // namespace cria
