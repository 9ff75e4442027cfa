#include "runtime/text/tokenizer/StopStrings.h"

#include "runtime/text/tokenizer/Text.h"

#include <algorithm>

namespace cria {

bool StopStrings::Pattern::take(char byte) {
  if (matched == text.size())
    matched = borders.back();
  while (matched > 0 && text[matched] != byte)
    matched = borders[matched - 1];
  matched += text[matched] == byte;
  return matched == text.size();
}

Result<StopStrings>
StopStrings::create(const std::vector<std::string> &strings) {
  StopStrings stops;
  for (const std::string &text : strings) {
    if (text.empty())
      return Status(CRIA_INVALID_ARGUMENT, "a stop string is empty");
    if (size_t bad = findInvalidUtf8(text); bad != text.npos)
      return Status(CRIA_INVALID_ARGUMENT,
                    "a stop string is not UTF-8 at byte " +
                        std::to_string(bad));
    Pattern pattern = {text, {0}};
    for (size_t i = 1; i < text.size(); ++i) {
      pattern.take(text[i]);
      pattern.borders.push_back(pattern.matched);
    }
    pattern.matched = 0;
    stops.patterns.push_back(std::move(pattern));
  }
  return stops;
}

size_t StopStrings::longest() const {
  size_t longest = 0;
  for (const Pattern &pattern : patterns)
    longest = std::max(longest, pattern.text.size());
  return longest;
}

void StopStrings::takePrompt(std::string_view bytes) {
  for (Pattern &pattern : patterns)
    for (char byte : bytes)
      pattern.take(byte);
}

bool StopStrings::take(std::string_view bytes) {
  for (char byte : bytes) {
    ++taken;
    bool complete = false;
    for (Pattern &pattern : patterns)
      complete |= pattern.take(byte);
    if (!complete)
      continue;
    // `begin` is then the longest complete string's.
    for (Pattern &pattern : patterns)
      if (pattern.matched < pattern.text.size())
        pattern.matched = 0;
    return true;
  }
  return false;
}

int64_t StopStrings::begin() const {
  size_t most = 0;
  for (const Pattern &pattern : patterns)
    most = std::max(most, pattern.matched);
  return taken - static_cast<int64_t>(most);
}

} // namespace cria
