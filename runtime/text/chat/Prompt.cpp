/// A template computes with the texts of messages before it prints them: it
/// trims them, looks for "</think>" in them, joins them with its own text. So
/// each text keeps who wrote each of its bytes, through all operations, and the
/// tokenizer makes special tokens only from the template's bytes.
#include "runtime/text/chat/Prompt.h"

namespace cria::chat {

namespace {
/// Records who wrote the texts of variables.
struct Author {
  Budget &budget;

  /// `value` with all its texts Given, keys included.
  Value given(const Value &value) const;
  /// given() for the list of messages, but the "role" of each message is a
  /// Name.
  Value messages(const Value &value) const;
  /// given() for the object that has the messages, but "bos_token" and the like
  /// stay the template's.
  Value variables(const Value &value) const;

private:
  Value write(const Value &text, Origin origin) const {
    return Value::string(Text(text.text(), origin), budget);
  }
};
} // namespace

Value Author::given(const Value &value) const {
  if (value.is(Value::Type::String))
    return write(value, Origin::Given);
  if (value.is(Value::Type::List)) {
    Value::List elements;
    for (const Value &element : value.elements())
      elements.push_back(given(element));
    return Value::list(std::move(elements), budget);
  }
  if (value.is(Value::Type::Dict)) {
    std::vector<Value::Dict::Member> members;
    for (const auto &[key, member] : value.members())
      members.push_back({given(key), given(member)});
    return Value::dict(Value::Dict(std::move(members), budget), budget);
  }
  return value;
}

Value Author::messages(const Value &value) const {
  if (!value.is(Value::Type::List))
    return given(value);
  Value::List all;
  for (const Value &message : value.elements()) {
    std::vector<Value::Dict::Member> members;
    for (const auto &[key, member] : message.members()) {
      bool isName = key.text() == "role" && member.is(Value::Type::String);
      members.push_back(
          {given(key), isName ? write(member, Origin::Name) : given(member)});
    }
    all.push_back(
        message.is(Value::Type::Dict)
            ? Value::dict(Value::Dict(std::move(members), budget), budget)
            : given(message));
  }
  return Value::list(std::move(all), budget);
}

Value Author::variables(const Value &value) const {
  std::vector<Value::Dict::Member> members;
  for (const auto &[key, member] : value.members()) {
    bool isToken = namesToken(key.text()) && member.is(Value::Type::String);
    members.push_back({key, isToken                    ? member
                            : key.text() == "messages" ? messages(member)
                                                       : given(member)});
  }
  return Value::dict(Value::Dict(std::move(members), budget), budget);
}

Result<Text> renderTraced(const Template &form, std::string_view variables) {
  Budget budget;
  Result<Value> read = readValue(variables, "variables", budget);
  if (!read.ok())
    return read.status();
  if (!read->is(Value::Type::Dict))
    return Status(CRIA_INVALID_ARGUMENT, "variables: expected an object");
  return form.render(Author{budget}.variables(*read), budget);
}

Result<std::vector<int32_t>> encode(const Template &form,
                                    const Tokenizer &tokenizer,
                                    std::string_view variables) {
  Result<Text> text = renderTraced(form, variables);
  if (!text.ok())
    return text.status();
  return tokenizer.encodeBy(text->bytes, text->origins);
}

} // namespace cria::chat
