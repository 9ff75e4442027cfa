/// A token has a score, the logarithm of its probability. The best cut of a
/// word is the one with the largest sum. From left to right, each place of the
/// word keeps the best sum of a cut that ends there, and the last token of that
/// cut. Every token that begins at a place is tried on one way through the
/// trie, so a word of n bytes takes O(n x longest token). A character that is
/// no token counts as unknown, with a score below all others.
#include "runtime/text/tokenizer/models/Unigram.h"

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/Text.h"

#include <algorithm>

namespace cria {

/// How far below the worst token an unknown character scores.
static constexpr double unknownPenalty = 10;

struct UnigramModel::Best {
  double score = 0;
  int32_t begin = -1; // of the token that ends here; -1: no cut ends here
  int32_t id = -1;
};

std::unique_ptr<const TokenModel> UnigramModel::read(const JsonCursor &model) {
  auto unigram = std::make_unique<UnigramModel>();
  onlyKeys(model, {"type", "vocab", "unk_id", "byte_fallback"});
  unigram->readScores(model["vocab"]);
  if (auto unknown = model.find("unk_id"))
    unigram->unknownId = static_cast<int32_t>(
        unknown->integer(0, static_cast<int64_t>(unigram->scores.size()) - 1));
  if (auto fallback = model.find("byte_fallback");
      fallback && fallback->boolean())
    unigram->bytes.read(unigram->tokens);
  return unigram;
}

void UnigramModel::readScores(const JsonCursor &list) {
  std::vector<std::pair<std::string, int32_t>> pieces;
  if (!list.raw().is_array() || list.raw().empty())
    return list.expected("an array of tokens and their scores");
  if (list.raw().size() > maxTokenIds)
    return list.fail("has " + std::to_string(list.raw().size()) +
                     " tokens, expected at most " +
                     std::to_string(maxTokenIds));
  double least = 0;
  for (size_t i = 0; i < list.raw().size(); ++i) {
    const nlohmann::json &entry = list.raw()[i];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() ||
        !entry[1].is_number())
      return list.fail("at " + std::to_string(i) +
                       " expected a token and its score");
    pieces.emplace_back(entry[0].get<std::string>(), static_cast<int32_t>(i));
    scores.push_back(entry[1].get<double>());
    least = i == 0 ? scores[0] : std::min(least, scores[i]);
  }
  unknownScore = least - unknownPenalty;
  tokens = Vocabulary::make(std::move(pieces), list);
}

/// The most that a byte costs, in units of effort, each time it is read.
static constexpr uint64_t workPerByte = 32;

/// Tries every token that begins at `at`. An error if the character there is
/// best left unknown and the model has no unknown token.
Status UnigramModel::extend(std::string_view word, size_t at,
                            std::vector<Best> &best, Effort &effort) const {
  double score = best[at].score;
  size_t character = at + characterLength(word, at);
  bool known = false;
  auto offer = [&](size_t end, double with, int32_t id) {
    if (best[end].begin < 0 || score + with > best[end].score)
      best[end] = {score + with, static_cast<int32_t>(at), id};
  };
  Vocabulary::Place place = Vocabulary::start;
  size_t end = at;
  while (end < word.size()) {
    place = tokens.next(place, word[end++]);
    if (place == Vocabulary::nowhere)
      break;
    if (int32_t id = tokens.idAt(place); id >= 0) {
      offer(end, scores[id], id);
      known |= end == character;
    }
  }
  if (!known)
    offer(character, unknownScore, unknownId);
  bool taken = best[character].begin == static_cast<int32_t>(at);
  if (!known && taken && unknownId < 0)
    return Status(CRIA_INVALID_ARGUMENT,
                  quote(word.substr(at, character - at)) +
                      " has no token, and the tokenizer has no unk_id");
  return effort.spend(workPerByte * (end - at)) ? Status() : tooLong();
}

Status UnigramModel::encode(std::string_view word, std::vector<int32_t> &ids,
                            Effort &effort) const {
  if (!effort.spend(workPerByte * (word.size() + 1)))
    return tooLong();
  std::vector<Best> best(word.size() + 1);
  for (size_t at = 0; at < word.size(); at += characterLength(word, at))
    if (Status status = extend(word, at, best, effort); !status.ok())
      return status;
  std::vector<std::string_view> parts; // from the last to the first
  bool unknown = false;                // whether the last part is unknown
  for (size_t end = word.size(); end > 0;) {
    auto begin = static_cast<size_t>(best[end].begin);
    bool fuses = unknown;
    unknown = best[end].id == unknownId;
    if (fuses && unknown)
      parts.back() = word.substr(begin, parts.back().size() + end - begin);
    else
      parts.push_back(word.substr(begin, end - begin));
    end = begin;
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    if (std::optional<int32_t> id = tokens.find(*part))
      ids.push_back(*id);
    else if (!bytes.spell(*part, ids))
      ids.push_back(unknownId);
  return Status();
}

} // namespace cria
