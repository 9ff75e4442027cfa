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

/// Whether a text of `value`, keys included, has `part` in it.
static bool holds(const Value &value, std::string_view part) {
  if (value.is(Value::Type::String))
    return findText(value.text(), part) != part.npos;
  if (value.is(Value::Type::Dict))
    for (const auto &[key, member] : value.members())
      if (holds(key, part) || holds(member, part))
        return true;
  if (value.is(Value::Type::List))
    for (const Value &element : value.elements())
      if (holds(element, part))
        return true;
  return false;
}

/// A noncharacter of Unicode that `variables` does not have; "" where it has
/// them all.
static std::string chooseMark(const Value &variables) {
  for (char32_t plane = 16; plane > 0; --plane)
    for (char32_t last : {0xFFFE, 0xFFFF}) {
      std::string mark;
      appendCharacter(mark, plane << 16 | last);
      if (!holds(variables, mark))
        return mark;
    }
  return "";
}

namespace {
/// Marks special tokens in texts.
struct Guard {
  const Tokenizer &tokenizer;
  const std::string &mark;
  Budget &budget;

  /// `value` with all its texts guarded, keys included.
  Value operator()(const Value &value) const;
  /// The same of an object whose "bos_token" and the like stay as they are.
  Value variables(const Value &value) const;
};
} // namespace

Value Guard::operator()(const Value &value) const {
  if (value.is(Value::Type::String)) {
    Result<std::string> guarded = tokenizer.guard(value.text(), mark);
    if (guarded.ok())
      return Value::string(std::move(*guarded), budget);
    budget.fail(guarded.status().message(), guarded.status().code());
  }
  if (value.is(Value::Type::List)) {
    Value::List elements;
    for (const Value &element : value.elements())
      elements.push_back((*this)(element));
    return Value::list(std::move(elements), budget);
  }
  if (value.is(Value::Type::Dict)) {
    std::vector<Value::Dict::Member> members;
    for (const auto &[key, member] : value.members())
      members.push_back({(*this)(key), (*this)(member)});
    return Value::dict(Value::Dict(std::move(members), budget), budget);
  }
  return value;
}

/// "bos_token" and the like.
static bool namesToken(const std::string &key) {
  static constexpr std::string_view suffix = "_token";
  return key.size() >= suffix.size() &&
         key.compare(key.size() - suffix.size(), suffix.size(), suffix) == 0;
}

Value Guard::variables(const Value &value) const {
  std::vector<Value::Dict::Member> members;
  for (const auto &[key, member] : value.members()) {
    bool isToken = namesToken(key.text()) && member.is(Value::Type::String);
    members.push_back({key, isToken ? member : (*this)(member)});
  }
  return Value::dict(Value::Dict(std::move(members), budget), budget);
}

Result<std::vector<int32_t>> encode(const Template &form,
                                    const Tokenizer &tokenizer,
                                    std::string_view variables) {
  Budget budget;
  Result<Value> given = readValue(variables, "variables", budget);
  if (!given.ok())
    return given.status();
  if (!given->is(Value::Type::Dict))
    return Status(CRIA_INVALID_ARGUMENT, "variables: expected an object");
  std::string mark = chooseMark(*given);
  if (mark.empty())
    return Status(CRIA_INVALID_ARGUMENT,
                  "the conversation has every noncharacter of Unicode");
  Value guarded = Guard{tokenizer, mark, budget}.variables(*given);
  Result<std::string> text = form.render(guarded, budget);
  if (!text.ok())
    return text.status();
  return tokenizer.encodeGuarded(*text, mark);
}

} // namespace cria::chat
