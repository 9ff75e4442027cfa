#include "runtime/TokenizerAdded.h"

#include "runtime/TokenizerJson.h"
#include "runtime/TokenizerText.h"

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

AddedTokens AddedTokens::read(const JsonCursor &list, const Status &status,
                              const BpeModel &model,
                              const std::vector<Normalizer> &normalizers) {
  AddedTokens added;
  added.next = static_cast<int64_t>(model.size());
  for (const JsonCursor &place : list.elements(maxTokenIds)) {
    AddedToken token = readToken(place);
    if (!status.ok())
      return added;
    if (token.content.empty())
      continue;
    for (size_t i = 0; token.normalized && i < normalizers.size(); ++i) {
      Status done = normalizers[i].apply(token.pattern, deadlineFor(0));
      if (!done.ok())
        place.fail(done.message(), done.code());
    }
    added.add(std::move(token), place, model);
  }
  added.index();
  return added;
}

void AddedTokens::add(AddedToken token, const JsonCursor &place,
                      const BpeModel &model) {
  if (token.pattern.size() > maxPatternBytes)
    place.fail("has " + std::to_string(token.pattern.size()) +
               " bytes, expected at most " + std::to_string(maxPatternBytes));
  if (!contents.insert(token.content).second)
    place.fail("repeats " + quote(token.content));
  int64_t expected;
  if (std::optional<int32_t> known = model.find(token.content))
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

void AddedTokens::index() {
  for (const auto &[id, token] : tokens)
    if (!token.pattern.empty())
      (token.normalized ? inNormalized : plain).sorted.push_back(&token);
  for (Set *set : {&plain, &inNormalized})
    std::sort(set->sorted.begin(), set->sorted.end(),
              [](const AddedToken *a, const AddedToken *b) {
                return a->pattern < b->pattern;
              });
}

const AddedToken *AddedTokens::find(int64_t id) const {
  if (id < 0 || id >= limit)
    return nullptr;
  auto place = tokens.find(static_cast<int32_t>(id));
  return place == tokens.end() ? nullptr : &place->second;
}

const AddedToken *AddedTokens::Set::longest(std::string_view text,
                                            size_t at) const {
  // All patterns in [begin, end) start with the first `depth` bytes of the
  // text at `at`.
  auto begin = sorted.begin(), end = sorted.end();
  const AddedToken *found = nullptr;
  for (size_t depth = 0; begin != end && at + depth < text.size(); ++depth) {
    auto byteOf = [&](const AddedToken *token) {
      return depth < token->pattern.size()
                 ? static_cast<uint8_t>(token->pattern[depth])
                 : -1;
    };
    int byte = static_cast<uint8_t>(text[at + depth]);
    begin = std::lower_bound(
        begin, end, byte,
        [&](const AddedToken *token, int key) { return byteOf(token) < key; });
    end = std::upper_bound(
        begin, end, byte,
        [&](int key, const AddedToken *token) { return key < byteOf(token); });
    if (begin != end && (*begin)->pattern.size() == depth + 1)
      found = *begin;
  }
  return found;
}

/// Whether no word goes on across `begin` or `end`.
bool AddedTokens::standsAlone(std::string_view text, size_t begin,
                              size_t end) const {
  size_t before = begin;
  while (before > 0 && (text[--before] & 0xC0) == 0x80)
    ;
  std::string_view neighbours[] = {text.substr(before, begin - before), {}};
  if (end < text.size())
    neighbours[1] = text.substr(end, characterLength(text, end));
  for (std::string_view character : neighbours) {
    std::vector<Span> spans;
    Status status = word->find(character, deadlineFor(0), spans);
    if (!status.ok() || (!spans.empty() && spans[0].match))
      return false;
  }
  return true;
}

/// The bytes of the white space character at `at`, 0 where there is another.
static size_t whiteSpace(std::string_view text, size_t at) {
  size_t length = characterLength(text, at);
  std::string_view character = text.substr(at, length);
  if (length == 1)
    return character[0] == ' ' || (character[0] >= 9 && character[0] <= 13);
  for (std::string_view space : {"\u0085", "\u00A0", "\u1680", "\u2028",
                                 "\u2029", "\u202F", "\u205F", "\u3000"})
    if (character == space)
      return length;
  bool quad = character >= "\u2000" && character <= "\u200A";
  return length == 3 && quad ? length : 0;
}

/// Where the white space that ends at `end` begins, at `least` the earliest.
static size_t spaceBefore(std::string_view text, size_t least, size_t end) {
  while (end > least) {
    size_t at = end - 1;
    while (at > least && (text[at] & 0xC0) == 0x80)
      --at;
    if (whiteSpace(text, at) == 0)
      break;
    end = at;
  }
  return end;
}

Status AddedTokens::split(Piece piece, bool normalized, Deadline deadline,
                          std::vector<Piece> &pieces) const {
  const Set &set = normalized ? inNormalized : plain;
  std::string_view text = piece.text;
  size_t done = 0, space = 0; // `space`: up to where white space was looked at
  auto emit = [&](size_t begin, size_t end, int32_t id) {
    if (begin < end)
      pieces.push_back({id < 0 ? piece.text.substr(begin, end - begin) : "", id,
                        piece.atHead && begin == 0});
  };
  unsigned steps = 0;
  for (size_t at = 0; !set.sorted.empty() && at < text.size();) {
    if (++steps % 256 == 0 && std::chrono::steady_clock::now() > deadline)
      return Status(CRIA_INVALID_ARGUMENT,
                    "looking for added tokens takes too long at byte " +
                        std::to_string(at) + " of the text");
    const AddedToken *token = set.longest(text, at);
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->pattern.size();
    at = end;
    if (token->singleWord && !standsAlone(text, begin, end))
      continue;
    if (token->stripLeft)
      begin = spaceBefore(text, done, begin);
    if (token->stripRight) {
      space = std::max(space, end);
      for (size_t n; space < text.size() && (n = whiteSpace(text, space));)
        space += n;
      end = space;
    }
    emit(done, begin, -1);
    emit(begin, std::max(end, begin + 1), token->id);
    done = end;
  }
  emit(done, text.size(), -1);
  return Status();
}

} // namespace cria
