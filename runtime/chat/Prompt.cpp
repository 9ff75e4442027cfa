/// A template computes with the texts of messages before it prints them: it
/// trims them, looks for "</think>" in them, glues them to its own. So a text
/// cannot be put aside while the template is rendered, and most texts are
/// rendered as they are. Only where a text has a special token in it, or ends
/// with the beginning of one, a mark is put in front of that: a character that
/// is none in Unicode. It comes out in front of the same characters, wherever
/// the template prints them. The tokenizer takes no special token behind a
/// mark, and leaves the marks out of what its model sees.
#include "runtime/chat/Prompt.h"

#include "runtime/tokenizer/Text.h"
#include "runtime/tokenizer/Unicode.h"

namespace cria::chat {

using nlohmann::ordered_json;

/// Whether a text of `value`, keys included, has `part` in it.
static bool holds(const ordered_json &value, std::string_view part) {
  if (value.is_string())
    return findText(value.get_ref<const std::string &>(), part) != part.npos;
  if (value.is_object())
    for (const auto &[key, member] : value.items())
      if (findText(key, part) != part.npos || holds(member, part))
        return true;
  if (value.is_array())
    for (const ordered_json &element : value)
      if (holds(element, part))
        return true;
  return false;
}

/// A noncharacter of Unicode that `variables` does not have; "" where it has
/// them all.
static std::string chooseMark(const ordered_json &variables) {
  for (char32_t plane = 16; plane > 0; --plane)
    for (char32_t last : {0xFFFE, 0xFFFF}) {
      std::string mark;
      appendCharacter(mark, plane << 16 | last);
      if (!holds(variables, mark))
        return mark;
    }
  return "";
}

/// Guards all texts of `value`, keys included.
static Status guard(ordered_json &value, const Tokenizer &tokenizer,
                    const std::string &mark) {
  if (value.is_string()) {
    Result<std::string> guarded =
        tokenizer.guard(value.get_ref<const std::string &>(), mark);
    if (guarded.ok())
      value = std::move(*guarded);
    return guarded.status();
  }
  if (value.is_object()) {
    ordered_json renamed = ordered_json::object();
    auto &members = renamed.get_ref<ordered_json::object_t &>();
    for (auto &[key, member] : value.get_ref<ordered_json::object_t &>()) {
      Result<std::string> guarded = tokenizer.guard(key, mark);
      if (!guarded.ok())
        return guarded.status();
      members.Container::emplace_back(std::move(*guarded), std::move(member));
    }
    value = std::move(renamed);
  }
  if (value.is_structured())
    for (auto &member : value)
      if (Status status = guard(member, tokenizer, mark); !status.ok())
        return status;
  return Status();
}

/// "bos_token" and the like.
static bool namesToken(const std::string &key) {
  static constexpr std::string_view suffix = "_token";
  return key.size() >= suffix.size() &&
         key.compare(key.size() - suffix.size(), suffix.size(), suffix) == 0;
}

Result<std::vector<int32_t>> encode(const Template &form,
                                    const Tokenizer &tokenizer,
                                    ordered_json variables) {
  std::string mark = chooseMark(variables);
  if (mark.empty())
    return Status(CRIA_INVALID_ARGUMENT,
                  "the conversation has every noncharacter of Unicode");
  for (auto &[key, value] : variables.items())
    if (!namesToken(key) || !value.is_string())
      if (Status status = guard(value, tokenizer, mark); !status.ok())
        return status;
  Result<std::string> text = form.render(variables);
  if (!text.ok())
    return text.status();
  return tokenizer.encodeGuarded(*text, mark);
}

} // namespace cria::chat
