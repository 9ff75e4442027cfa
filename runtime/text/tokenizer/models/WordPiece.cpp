#include "runtime/text/tokenizer/models/WordPiece.h"

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/Text.h"

namespace cria {

std::unique_ptr<const TokenModel>
WordPieceModel::read(const JsonCursor &model) {
  auto pieces = std::make_unique<WordPieceModel>();
  onlyKeys(model, {"type", "unk_token", "continuing_subword_prefix",
                   "max_input_chars_per_word", "vocab"});
  pieces->tokens = Vocabulary::read(model["vocab"]);
  pieces->unknownId = pieces->tokens.named(model["unk_token"]);
  pieces->prefix = model["continuing_subword_prefix"].string();
  pieces->maxCharacters =
      model["max_input_chars_per_word"].integer(0, INT32_MAX);
  for (char byte : pieces->prefix)
    if (pieces->inWord != Vocabulary::nowhere)
      pieces->inWord = pieces->tokens.next(pieces->inWord, byte);
  return pieces;
}

/// The most that a byte costs, in units of effort, each time it is read.
static constexpr uint64_t workPerByte = 32;

/// The id of the longest token at `at`, or -1. Moves `at` past the token and
/// sets `read` to the number of bytes read.
int32_t WordPieceModel::longest(std::string_view word, size_t &at,
                                size_t &read) const {
  int32_t id = -1;
  Vocabulary::Place place = at == 0 ? Vocabulary::start : inWord;
  read = 0;
  for (size_t end = at; end < word.size() && place != Vocabulary::nowhere;) {
    place = tokens.next(place, word[end++]);
    ++read;
    bool whole = end == word.size() || (word[end] & 0xC0) != 0x80;
    if (place != Vocabulary::nowhere && whole && tokens.idAt(place) >= 0) {
      id = tokens.idAt(place);
      at = end;
    }
  }
  return id;
}

Status WordPieceModel::encode(std::string_view word, std::vector<int32_t> &ids,
                              Effort &effort) const {
  if (!effort.spend(workPerByte * (word.size() + 1)))
    return tooLong();
  size_t before = ids.size();
  int64_t characters = 0;
  for (char c : word)
    characters += (c & 0xC0) != 0x80;
  bool known = characters <= maxCharacters;
  for (size_t at = 0; known && at < word.size();) {
    size_t read = 0;
    int32_t id = longest(word, at, read);
    if (!effort.spend(workPerByte * read))
      return tooLong();
    known = id >= 0;
    ids.push_back(id);
  }
  if (!known) {
    ids.resize(before);
    ids.push_back(unknownId);
  }
  return Status();
}

} // namespace cria
