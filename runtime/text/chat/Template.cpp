#include "runtime/text/chat/Template.h"

#include "runtime/base/Json.h"
#include "runtime/base/files/File.h"
#include "runtime/gguf/Files.h"
#include "runtime/text/Stack.h"
#include "runtime/text/chat/Evaluator.h"
#include "runtime/text/gguf/Text.h"
#include "runtime/text/tokenizer/Text.h"

#include <filesystem>

namespace cria::chat {

/// The largest template. The largest real one has a tenth of this size.
static constexpr uint64_t maxTemplateBytes = 256u << 10;

/// The stack that the deepest templates and values need, with a margin of a
/// third. Measured: 240 KiB to parse, 280 KiB to render.
static constexpr size_t stackBytes = 384 << 10;
static_assert(stackBytes < CRIA_STACK_BYTES,
              "cria.h promises that it is enough");

Result<Template> Template::parse(std::string_view source,
                                 const std::string &name) {
  if (Status status = checkStack(stackBytes); !status.ok())
    return status;
  Template parsed;
  parsed.name = name;
  if (source.size() > maxTemplateBytes)
    return Status(CRIA_INVALID_ARGUMENT, name + ": the chat template has " +
                                             std::to_string(source.size()) +
                                             " bytes, expected at most " +
                                             std::to_string(maxTemplateBytes));
  if (size_t bad = findInvalidUtf8(source); bad != source.npos)
    return Status(CRIA_INVALID_ARGUMENT,
                  name + ": not UTF-8 at byte " + std::to_string(bad));
  Result<std::vector<Statement>> statements = chat::parse(source);
  if (!statements.ok())
    return Status(statements.status().code(),
                  name + ": chat template: " + statements.status().message());
  parsed.statements = std::move(*statements);
  return parsed;
}

/// The text of "chat_template": a string, or the one named "default" of a list
/// of objects with "name" and "template".
static std::string readSource(const JsonCursor &place) {
  if (!place.raw().is_array())
    return place.string();
  for (const JsonCursor &one : place.elements(64))
    if (one["name"].string() == "default")
      return one["template"].string();
  place.fail("has no template named 'default'", CRIA_NOT_FOUND);
  return "";
}

bool namesToken(std::string_view key) {
  static constexpr std::string_view suffix = "_token";
  return key.size() >= suffix.size() &&
         key.substr(key.size() - suffix.size()) == suffix;
}

using Tokens = std::vector<std::pair<std::string, std::string>>;

/// Adds the special token `key` of `config`: a text, or an object with one.
static void readToken(const JsonCursor &config, const std::string &key,
                      Tokens &tokens) {
  if (auto token = config.find(key))
    tokens.emplace_back(key, token->raw().is_object()
                                 ? (*token)["content"].string()
                                 : token->string());
}

/// Adds the special tokens that `config` names, those of the model among them,
/// such as "image_token".
static void readTokens(const JsonCursor &config, Tokens &tokens) {
  for (const char *key : {"bos_token", "eos_token", "unk_token", "sep_token",
                          "pad_token", "cls_token", "mask_token"})
    readToken(config, key, tokens);
  if (!config.raw().is_object())
    return;
  for (const auto &[key, value] : config.raw().items())
    if (namesToken(key) && (value.is_string() || value.is_object()))
      readToken(config, key, tokens);
  auto extra = config.find("extra_special_tokens");
  if (extra && extra->raw().is_object())
    for (const auto &[key, value] : extra->raw().items())
      readToken(*extra, key, tokens);
}

/// Adds those of special_tokens_map.json, which counts beside a config of old
/// versions of transformers.
static Status readTokenMap(const std::string &folder, Tokens &tokens) {
  std::string path = folder + "/special_tokens_map.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return Status();
  Result<JsonDocument> map = readJson(path);
  if (!map.ok())
    return map.status();
  Status status;
  readTokens(JsonCursor(map->root(), path, status), tokens);
  return status;
}

Result<Template> Template::loadGguf(const std::string &path) {
  Result<gguf::ChatTemplate> read = gguf::readChatTemplate(path);
  if (!read.ok())
    return read.status();
  Result<Template> parsed = parse(read->source, path);
  if (parsed.ok())
    parsed->tokens = std::move(read->tokens);
  return parsed;
}

Result<Template> Template::load(const std::string &folder) {
  if (gguf::isGguf(folder))
    return loadGguf(folder);
  std::string path = folder + "/chat_template.jinja";
  std::string configPath = folder + "/tokenizer_config.json";
  std::error_code ignored;
  bool alone = std::filesystem::exists(path, ignored);
  std::string source;
  Tokens tokens;
  Status status;
  // Processors of images kept theirs in a file like a config.
  std::string older = folder + "/chat_template.json";
  bool isOlder = !alone && std::filesystem::exists(older, ignored);
  if (isOlder) {
    Result<JsonDocument> document = readJson(path = older);
    if (!document.ok())
      return document.status();
    JsonCursor root(document->root(), path, status);
    source = readSource(root["chat_template"]);
  }
  bool old = true; // before "added_tokens_decoder"
  if (std::filesystem::exists(configPath, ignored)) {
    Result<JsonDocument> config = readJson(configPath);
    if (!config.ok())
      return config.status();
    JsonCursor root(config->root(), configPath, status);
    readTokens(root, tokens);
    old = !root.find("added_tokens_decoder");
    if (auto found = root.find("chat_template"); found && !alone && !isOlder) {
      source = readSource(*found);
      path = configPath;
    }
  }
  if (status.ok() && old)
    status = readTokenMap(folder, tokens);
  if (!status.ok())
    return status;
  if (alone) {
    Result<std::string> text = readFile(path, maxTemplateBytes);
    if (!text.ok())
      return text.status();
    source = *text;
  } else if (path != configPath && !isOlder) {
    return Status(CRIA_NOT_FOUND, folder + ": no chat template: neither "
                                           "chat_template.jinja nor one in "
                                           "tokenizer_config.json");
  }
  Result<Template> parsed = parse(source, path);
  if (parsed.ok())
    parsed->tokens = std::move(tokens);
  return parsed;
}

/// What apply_chat_template makes of a message: no members that are null; and
/// reasoning by both names that templates use.
static Value tidyMessage(const Value &message, Budget &budget) {
  if (!message.is(Value::Type::Dict))
    return message;
  std::vector<Value::Dict::Member> members;
  for (const Value::Dict::Member &member : message.members())
    if (!member.value.is(Value::Type::None))
      members.push_back(member);
  for (const char *name : {"reasoning_content", "thinking", "reasoning"}) {
    const Value *found = message.members().find(name, budget);
    if (!found || found->is(Value::Type::None))
      continue;
    members.insert(members.begin(),
                   {Value::string("thinking", budget), *found});
    members.push_back({Value::string("reasoning_content", budget), *found});
    break;
  }
  return Value::dict(Value::Dict(std::move(members), budget), budget);
}

/// `given` with what apply_chat_template defines for every template.
static Value::Dict withDefaults(const Value::Dict &given, const Tokens &tokens,
                                Budget &budget) {
  std::vector<Value::Dict::Member> all = {
      {Value::string("tools", budget), Value::none()},
      {Value::string("documents", budget), Value::none()},
      {Value::string("add_generation_prompt", budget), Value::boolean(false)}};
  for (const auto &[key, token] : tokens)
    all.push_back({Value::string(key, budget), Value::string(token, budget)});
  for (auto [key, value] : given) {
    if (key.text() == "messages" && value.is(Value::Type::List)) {
      Value::List messages = iterate(value, budget);
      for (Value &message : messages)
        message = tidyMessage(message, budget);
      value = Value::list(std::move(messages), budget);
    }
    all.push_back({key, std::move(value)});
  }
  return Value::Dict(std::move(all), budget);
}

Result<std::string> Template::render(std::string_view variables) const {
  if (Status status = checkStack(stackBytes); !status.ok())
    return status;
  Budget budget;
  Result<Value> given = readValue(variables, "variables", budget);
  if (!given.ok())
    return given.status();
  Result<Text> text = render(*given, budget);
  if (!text.ok())
    return text.status();
  return std::move(text->bytes);
}

Result<Text> Template::render(const Value &variables, Budget &budget) const {
  if (Status status = checkStack(stackBytes); !status.ok())
    return status;
  if (!variables.is(Value::Type::Dict))
    return Status(CRIA_INVALID_ARGUMENT, "variables: expected an object");
  Value::Dict members = withDefaults(variables.members(), tokens, budget);
  Text text = Evaluator(budget, std::move(members)).render(statements);
  if (!budget.ok())
    return Status(budget.error().code(),
                  name + ": chat template: " + budget.error().message());
  return text;
}

} // namespace cria::chat
