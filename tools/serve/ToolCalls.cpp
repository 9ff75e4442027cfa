#include "tools/serve/ToolCalls.h"

#include <algorithm>
#include <utility>

namespace cria::serve {

static constexpr std::string_view kHermesClose = "</tool_call>";

/// What begins calls. In the format Json it may be left out.
static std::string_view markerOf(CallFormat format) {
  switch (format) {
  case CallFormat::Json:
    return "<|python_tag|>";
  case CallFormat::Hermes:
    return "<tool_call>";
  case CallFormat::Mistral:
    return "[TOOL_CALLS]";
  case CallFormat::None:
    break;
  }
  return "";
}

static bool isBlank(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static std::string_view trim(std::string_view text) {
  while (!text.empty() && isBlank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && isBlank(text.back()))
    text.remove_suffix(1);
  return text;
}

// ---- JSON ------------------------------------------------------------------

void JsonWalk::take(char byte) {
  if (inString) {
    inString = escaped || byte != '"';
    escaped = !escaped && byte == '\\';
    return;
  }
  inString = byte == '"';
  depth += byte == '{' || byte == '[';
  depth -= byte == '}' || byte == ']';
}

/// The parts of an object or array as they are written, without its brackets.
static std::vector<std::string_view> partsOf(std::string_view value) {
  std::vector<std::string_view> parts;
  value = value.substr(1, value.size() - 2);
  if (trim(value).empty())
    return parts;
  JsonWalk walk;
  size_t begin = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] == ',' && walk.depth == 0 && !walk.inString) {
      parts.push_back(trim(value.substr(begin, i - begin)));
      begin = i + 1;
    }
    walk.take(value[i]);
  }
  parts.push_back(trim(value.substr(begin)));
  return parts;
}

/// A key and its value as it is written.
static std::pair<std::string, std::string_view>
memberOf(std::string_view member) {
  JsonWalk walk;
  size_t colon = 0;
  while (walk.inString || member[colon] != ':')
    walk.take(member[colon++]);
  return {json::parse(trim(member.substr(0, colon))).get<std::string>(),
          trim(member.substr(colon + 1))};
}

// ---- Reading ---------------------------------------------------------------

CallReader::CallReader(CallFormat format, std::vector<std::string> names,
                       bool isForced)
    : format(format), names(std::move(names)) {
  if (format == CallFormat::Json)
    state = State::Start;
  else if (format == CallFormat::None)
    state = State::Plain;
  else if (isForced)
    open();
}

std::string CallReader::takeText() { return std::exchange(text, {}); }
std::vector<Call> CallReader::takeCalls() { return std::exchange(calls, {}); }

/// Adds the call that `object`, JSON, is. False if it is none.
bool CallReader::addCall(std::string_view object) {
  if (object.front() != '{')
    return false;
  Call call;
  for (std::string_view part : partsOf(object)) {
    auto [key, value] = memberOf(part);
    if (key == "name" && value.front() == '"')
      call.name = json::parse(value).get<std::string>();
    else if (key == "arguments" || key == "parameters")
      call.arguments = value;
  }
  if (call.arguments.empty() || call.arguments.front() != '{' ||
      std::find(names.begin(), names.end(), call.name) == names.end())
    return false;
  found.push_back(std::move(call));
  return true;
}

/// What is held is text.
void CallReader::release() {
  isAfterCalls = isAfterCalls && held.empty();
  text += held;
  held.clear();
  found.clear();
  matched = 0;
}

/// What is held is calls.
void CallReader::accept() {
  std::move(found.begin(), found.end(), std::back_inserter(calls));
  isAfterCalls = true;
  held.clear();
  found.clear();
  matched = 0;
}

/// What is held before `byte` is no call.
void CallReader::refuse(char byte) {
  held.pop_back();
  release();
  state = format == CallFormat::Json ? State::Plain : State::Text;
  take(byte);
}

/// Whether `byte` goes on with a marker.
bool CallReader::match(std::string_view marker, char byte) {
  if (matched == marker.size() || marker[matched] != byte)
    return false;
  ++matched;
  return true;
}

/// The JSON of calls comes next.
void CallReader::open() {
  state = State::Value;
  matched = 0;
  walk = {};
}

void CallReader::push(std::string_view piece) {
  for (char byte : piece)
    take(byte);
}

void CallReader::take(char byte) {
  held += byte;
  switch (state) {
  case State::Text:
    return takeOutside(byte);
  case State::Start:
    return takeStart(byte);
  case State::Value:
    return takeValue(byte);
  case State::Close:
    return takeClose(byte);
  case State::Next:
    return takeNext(byte);
  case State::Plain:
    return release();
  }
}

void CallReader::takeOutside(char byte) {
  std::string_view marker = markerOf(format);
  if (match(marker, byte)) {
    if (matched == marker.size())
      open();
    return;
  }
  if (matched > 0) // its first byte is nowhere else in a marker
    return refuse(byte);
  if (!isBlank(byte))
    release();
}

void CallReader::takeStart(char byte) {
  if (match(markerOf(format), byte))
    return;
  bool isBetween = matched == 0 || matched == markerOf(format).size();
  if (isBetween && byte == '{') {
    open();
    return takeValue(byte);
  }
  if (!isBetween || !isBlank(byte))
    refuse(byte);
}

void CallReader::takeValue(char byte) {
  if (walk.depth == 0) {
    if (isBlank(byte))
      return;
    if (byte != (format == CallFormat::Mistral ? '[' : '{'))
      return refuse(byte);
    begin = held.size() - 1;
  }
  walk.take(byte);
  if (walk.depth == 0)
    endValue();
}

void CallReader::endValue() {
  std::string_view value = std::string_view(held).substr(begin);
  bool areCalls = json::accept(value);
  if (areCalls && format == CallFormat::Mistral) {
    std::vector<std::string_view> parts = partsOf(value);
    areCalls = !parts.empty() &&
               std::all_of(parts.begin(), parts.end(),
                           [&](std::string_view one) { return addCall(one); });
  } else if (areCalls) {
    areCalls = addCall(value);
  }
  if (!areCalls) {
    release();
    state = format == CallFormat::Json ? State::Plain : State::Text;
  } else if (format == CallFormat::Mistral) {
    accept();
    state = State::Text;
  } else {
    state = format == CallFormat::Hermes ? State::Close : State::Next;
  }
}

void CallReader::takeClose(char byte) {
  if (match(kHermesClose, byte)) {
    if (matched == kHermesClose.size()) {
      accept();
      state = State::Text;
    }
    return;
  }
  if (matched > 0 || !isBlank(byte))
    refuse(byte);
}

void CallReader::takeNext(char byte) {
  if (byte == '{') {
    open();
    takeValue(byte);
  } else if (byte != ';' && !isBlank(byte)) {
    refuse(byte);
  }
}

void CallReader::pushMarker() {
  if (format == CallFormat::Json || format == CallFormat::None)
    return; // it is not needed
  if (state != State::Text || matched > 0)
    release();
  open();
}

void CallReader::finish() {
  if (state == State::Close || state == State::Next)
    accept(); // the end of the text closes it
  else if (!isAfterCalls || !trim(held).empty())
    release();
  held.clear();
  state = State::Plain;
}

// ---- The format of a template ----------------------------------------------

/// The text of a conversation, or nothing.
static std::optional<std::string> render(const Chat &chat,
                                         const json &variables) {
  try {
    return chat.render(toText(variables));
  } catch (const Error &) {
    return std::nullopt;
  }
}

/// Whether `reply` is read back as one call of `name`.
static bool readsCall(CallFormat format, std::string_view reply,
                      const std::string &name) {
  CallReader reader(format, {name}, false);
  JsonWalk walk; // a token that ends the reply may follow its JSON
  bool hasBegun = false;
  for (char byte : reply) {
    reader.push({&byte, 1});
    walk.take(byte);
    hasBegun |= walk.depth > 0;
    if (format == CallFormat::Json && hasBegun && walk.depth == 0)
      break;
  }
  reader.finish();
  std::vector<Call> calls = reader.takeCalls();
  return calls.size() == 1 && json::parse(calls[0].arguments) == json{{"x", 1}};
}

static CallFormat formatOf(const Chat &chat) {
  const std::string name = "get_weather";
  json function = {{"name", name}, {"arguments", {{"x", 1}}}};
  json call = {
      {"id", "abcdefghi"}, {"type", "function"}, {"function", function}};
  json asks = {{"role", "user"}, {"content", "a"}};
  json calls = {{"role", "assistant"},
                {"content", ""},
                {"tool_calls", json::array({call})}};
  json parameters = {{"type", "object"}, {"properties", json::object()}};
  json tool = {
      {"type", "function"},
      {"function",
       {{"name", name}, {"description", "b"}, {"parameters", parameters}}}};
  auto asked = render(chat, {{"messages", json::array({asks})},
                             {"add_generation_prompt", true}});
  auto shown = render(chat, {{"messages", json::array({asks})},
                             {"tools", json::array({tool})},
                             {"add_generation_prompt", true}});
  auto called = render(chat, {{"messages", json::array({asks, calls})}});
  if (!asked || !shown || !called || shown == asked)
    return CallFormat::None;
  bool isReply = called->compare(0, asked->size(), *asked) == 0;
  std::string_view reply(*called);
  reply.remove_prefix(isReply ? asked->size() : 0);
  for (CallFormat format :
       {CallFormat::Hermes, CallFormat::Mistral, CallFormat::Json})
    if ((isReply || format != CallFormat::Json) &&
        readsCall(format, reply, name))
      return format;
  return CallFormat::None;
}

CallSyntax callSyntaxOf(const Chat &chat, const Tokenizer &tokenizer) {
  CallSyntax syntax{formatOf(chat)};
  if (syntax.format == CallFormat::None)
    return syntax;
  try {
    int32_t id = tokenizer.find(std::string(markerOf(syntax.format)));
    if (tokenizer.decode({id}).empty())
      syntax.marker = id;
  } catch (const Error &) { // it has no such token
  }
  return syntax;
}

// ---- Calls that must be ----------------------------------------------------

/// Has the references of a schema, which is at `place` of another one, mean
/// what they meant.
static void moveReferences(json &schema, const std::string &place,
                           bool hasNames = false) {
  if (schema.is_array())
    for (json &element : schema)
      moveReferences(element, place);
  if (!schema.is_object())
    return;
  auto isOneOf = [&](const std::string &key,
                     std::initializer_list<const char *> words) {
    return !hasNames &&
           std::find(words.begin(), words.end(), key) != words.end();
  };
  for (auto at = schema.begin(); at != schema.end(); ++at) {
    const std::string &key = at.key();
    json &value = at.value();
    if (isOneOf(key, {"$ref"}) && value.is_string()) {
      std::string to = value.get<std::string>();
      if (!to.empty() && to[0] == '#')
        value = "#" + place + to.substr(1);
    } else if (!isOneOf(key,
                        {"enum", "const", "default", "example", "examples"})) {
      moveReferences(value, place,
                     isOneOf(key, {"properties", "$defs", "definitions"}));
    }
  }
}

/// The schema of calls of one tool.
static json schemaOf(const json &tool, const char *key,
                     const std::string &place) {
  const json &function = tool["function"];
  json arguments = json::object();
  auto given = function.find("parameters");
  if (given != function.end() && given->is_object())
    arguments = *given;
  if (!arguments.contains("type"))
    arguments["type"] = "object";
  moveReferences(arguments, place + "/properties/" + key);
  return {{"type", "object"},
          {"properties",
           {{"name", {{"const", function["name"]}}}, {key, arguments}}},
          {"required", {"name", key}},
          {"additionalProperties", false}};
}

ForcedCall forceCall(CallFormat format, const json &tools,
                     const std::string &name, bool several) {
  const char *key = format == CallFormat::Json ? "parameters" : "arguments";
  bool isList = format == CallFormat::Mistral;
  json any = json::array();
  for (const json &tool : tools)
    if (name.empty() || tool["function"]["name"] == name)
      any.push_back(schemaOf(tool, key,
                             (isList ? "/items/anyOf/" : "/anyOf/") +
                                 std::to_string(any.size())));
  json schema = {{"anyOf", std::move(any)}};
  if (isList)
    schema = {{"type", "array"}, {"items", std::move(schema)}, {"minItems", 1}};
  if (isList && !several)
    schema["maxItems"] = 1;
  std::string prefix;
  if (format != CallFormat::Json)
    prefix = markerOf(format);
  if (format == CallFormat::Hermes)
    prefix += '\n';
  return {std::move(prefix), toText(schema)};
}

} // namespace cria::serve
