#include "runtime/text/tokenizer/TextStream.h"

#include "runtime/text/tokenizer/Text.h"

#include <algorithm>

namespace cria {

Status TextStream::stopAt(const std::vector<std::string> &strings,
                          const std::vector<int32_t> &prompt) {
  Result<StopStrings> made = StopStrings::create(strings);
  if (!made.ok())
    return made.status();
  // A token has a byte or more.
  for (size_t last = std::min(prompt.size(), made->longest()); last > 0;
       --last) {
    Result<std::string> bytes = tokenizer->bytes(prompt[prompt.size() - last]);
    if (!bytes.ok())
      return bytes.status();
    made->takePrompt(*bytes);
  }
  stops = std::move(*made);
  // The new strings count bytes from here on.
  for (Held &one : held)
    one.end -= taken;
  taken = 0;
  return Status();
}

/// The token to decode; null if it is left out.
const std::string *TextStream::spelling(int64_t id) const {
  if (const AddedToken *token = tokenizer->added.find(id))
    return token->special && !special ? nullptr : &token->pattern;
  return tokenizer->model->vocabulary().token(id);
}

Result<std::string> TextStream::decode(int64_t id) {
  const std::string *token = spelling(id);
  return token ? state.push(*token) : std::string();
}

/// The text of the bytes of a token that are before `end`, which is within or
/// before the token.
Result<std::string> TextStream::decodePart(const Held &one, int64_t end) {
  int64_t after = one.end - end;
  auto size = static_cast<int64_t>(one.bytes.size());
  if (after >= size || !spelling(one.id))
    return std::string();
  if (spellsBytes(tokenizer->decoder))
    return state.push(
        spellBytes(std::string_view(one.bytes).substr(0, size - after)));
  // A decoder changes at most the beginning of a token.
  Result<std::string> text = decode(one.id);
  if (text.ok())
    text->resize(text->size() - std::min<size_t>(text->size(), after));
  return text;
}

/// Decodes what is held back and ends by `end`.
Result<std::string> TextStream::release(int64_t end) {
  std::string text;
  for (; !held.empty() && held.front().end <= end; held.pop_front()) {
    Result<std::string> piece = decode(held.front().id);
    if (!piece.ok())
      return piece;
    text += *piece;
  }
  return text;
}

Result<std::string> TextStream::push(int64_t id) {
  if (isStopped)
    return std::string();
  if (stops.empty() && held.empty())
    return decode(id);
  Result<std::string> bytes = tokenizer->bytes(id);
  if (!bytes.ok())
    return bytes;
  taken += static_cast<int64_t>(bytes->size());
  held.push_back({id, std::move(*bytes), taken});
  isStopped = stops.take(held.back().bytes);
  Result<std::string> text = release(stops.begin());
  if (!text.ok() || !isStopped)
    return text;
  Result<std::string> part = decodePart(held.front(), stops.begin());
  held.clear();
  Result<std::string> rest = state.finish();
  if (!part.ok() || !rest.ok())
    return part.ok() ? rest : part;
  return *text + *part + *rest;
}

Result<std::string> TextStream::finish() {
  Result<std::string> text = release(taken), rest = state.finish();
  stops = {};
  held.clear();
  taken = 0;
  isStopped = false;
  if (!text.ok() || !rest.ok())
    return text.ok() ? rest : text;
  return *text + *rest;
}

} // namespace cria
