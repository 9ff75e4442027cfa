#include "runtime/text/chat/Template.h"

#include "runtime/File.h"
#include "runtime/Json.h"
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

/// The special tokens of tokenizer_config.json: texts, or objects with one.
static std::vector<std::pair<std::string, std::string>>
readTokens(const JsonCursor &config) {
  std::vector<std::pair<std::string, std::string>> tokens;
  for (const char *key : {"bos_token", "eos_token", "unk_token", "sep_token",
                          "pad_token", "cls_token", "mask_token"})
    if (auto token = config.find(key))
      tokens.emplace_back(key, token->raw().is_object()
                                   ? (*token)["content"].string()
                                   : token->string());
  return tokens;
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
  std::vector<std::pair<std::string, std::string>> tokens;
  Status status;
  if (std::filesystem::exists(configPath, ignored)) {
    Result<JsonDocument> config = readJson(configPath);
    if (!config.ok())
      return config.status();
    JsonCursor root(config->root(), configPath, status);
    tokens = readTokens(root);
    if (auto found = root.find("chat_template"); found && !alone) {
      source = readSource(*found);
      path = configPath;
    }
  }
  if (!status.ok())
    return status;
  if (alone) {
    Result<std::string> text = readFile(path, maxTemplateBytes);
    if (!text.ok())
      return text.status();
    source = *text;
  } else if (path != configPath) {
    return Status(CRIA_NOT_FOUND, folder + ": no chat template: neither "
                                           "chat_template.jinja nor one in "
                                           "tokenizer_config.json");
  }
  Result<Template> parsed = parse(source, path);
  if (parsed.ok())
    parsed->tokens = std::move(tokens);
  return parsed;
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
  std::vector<Value::Dict::Member> all;
  for (const auto &[key, token] : tokens)
    all.push_back({Value::string(key, budget), Value::string(token, budget)});
  all.insert(all.end(), variables.members().begin(), variables.members().end());
  Value::Dict members(std::move(all), budget);
  Text text = Evaluator(budget, std::move(members)).render(statements);
  if (!budget.ok())
    return Status(budget.error().code(),
                  name + ": chat template: " + budget.error().message());
  return text;
}

} // namespace cria::chat
