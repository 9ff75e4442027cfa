#include "tools/serve/Request.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <charconv>

namespace cria::serve {

namespace {

using In = const JsonCursor &;
using Out = Request &;

constexpr unsigned kText = Completions | ChatCompletions;
constexpr unsigned kSampled = kText | Responses;
constexpr unsigned kWithModel =
    kSampled | Embeddings | Tokenize | Detokenize | ApplyTemplate;
constexpr unsigned kWithMessages = ChatCompletions | Tokenize | ApplyTemplate;

/// A field of a request.
struct Field {
  const char *name;
  unsigned endpoints;                       // that have it
  void (*read)(In value, Out request) = {}; // null: accepted, without effect
};

/// Refuses a value that would change the answer.
void notSupported(In value, const char *what) {
  value.fail(std::string("is not supported: ") + what, CRIA_UNIMPLEMENTED);
}

int32_t readId(In value) {
  return static_cast<int32_t>(value.integer(0, INT32_MAX));
}

std::vector<int32_t> readIds(In value) {
  std::vector<int32_t> ids;
  for (size_t i = 0, count = value.count(); i < count && value.ok(); ++i)
    ids.push_back(readId(value.element(i)));
  return ids;
}

/// A text, texts, ids, or lists of ids.
void readPrompts(In value, Out request) {
  const auto &raw = value.raw();
  if (!raw.is_array()) {
    request.prompts.push_back({value.string()});
    return;
  }
  if (raw.empty())
    return value.fail("is empty");
  if (raw[0].is_number()) {
    request.prompts.push_back({std::nullopt, readIds(value)});
    return;
  }
  for (In one : value.elements(kMostTexts))
    if (one.raw().is_array())
      request.prompts.push_back({std::nullopt, readIds(one)});
    else
      request.prompts.push_back({one.string()});
}

void readStops(In value, Out request) {
  constexpr size_t most = 16, bytes = 256;
  std::vector<std::string> stops;
  if (value.raw().is_array())
    for (In one : value.elements(most))
      stops.push_back(one.string());
  else
    stops.push_back(value.string());
  for (const std::string &stop : stops)
    if (stop.empty() || stop.size() > bytes)
      value.fail("has a string of " + std::to_string(stop.size()) +
                 " bytes, expected 1 to " + std::to_string(bytes));
  request.stops = std::move(stops);
}

void readBias(In value, Out request) {
  constexpr size_t most = 1024;
  const auto &raw = value.raw();
  if (!raw.is_object())
    return value.expected("an object of ids and numbers");
  if (raw.size() > most)
    return value.fail("has " + std::to_string(raw.size()) +
                      " ids, expected at most " + std::to_string(most));
  for (const auto &[key, one] : raw.items()) {
    int32_t id = -1;
    const char *end = key.data() + key.size();
    auto [stop, error] = std::from_chars(key.data(), end, id);
    if (error != std::errc() || stop != end || id < 0)
      return value.fail("has the key " + quote(key) + ", expected an id");
    request.bias.emplace_back(id,
                              static_cast<float>(value[key].number(-100, 100)));
  }
}

void readStreamOptions(In value, Out request) {
  onlyKeys(value, {"include_usage", "include_obfuscation"});
  if (auto usage = value.find("include_usage"))
    request.includeUsage = usage->boolean();
}

/// Sets what texts must be. The source of a schema is read again in the order
/// of its members.
void constrain(In value, Out request, const char *field, cria_grammar_kind kind,
               std::string source) {
  if (request.constraint)
    return value.fail("is not supported together with '" +
                          std::string(request.constrainedBy) + "'",
                      CRIA_UNIMPLEMENTED);
  request.constraint = {kind, std::move(source)};
  request.constrainedBy = field;
}

/// Reads the form that a text must have. A schema with its name is in
/// `json_schema` if it is nested, else beside the type.
void readFormat(In format, Out request, const char *field, bool isNested) {
  std::string type = format["type"].string();
  if (!format.ok() || type == "text")
    return;
  if (type == "json_object") {
    onlyKeys(format, {"type"});
    return constrain(format, request, field, CRIA_GRAMMAR_JSON_SCHEMA,
                     R"({"type": "object"})");
  }
  if (type != "json_schema")
    return notSupported(
        format["type"],
        "expected \"text\", \"json_object\" or \"json_schema\"");
  if (isNested) {
    onlyKeys(format, {"type", "json_schema"});
    onlyKeys(format["json_schema"],
             {"name", "description", "schema", "strict"});
  } else {
    onlyKeys(format, {"type", "name", "description", "schema", "strict"});
  }
  JsonCursor schema = (isNested ? format["json_schema"] : format)["schema"];
  if (!format.ok())
    return;
  if (!schema.raw().is_object() && !schema.raw().is_boolean())
    return schema.expected("a JSON schema");
  constrain(format, request, field, CRIA_GRAMMAR_JSON_SCHEMA, "");
}

void readResponseFormat(In value, Out request) {
  readFormat(value, request, "response_format", true);
}

void readTextOptions(In value, Out request) {
  onlyKeys(value, {"format"});
  if (auto format = value.find("format"))
    readFormat(*format, request, "text", false);
}

void readModalities(In value, Out) {
  for (In one : value.elements())
    if (one.string() != "text" && value.ok())
      notSupported(one, "expected \"text\"");
}

constexpr size_t kMostMessages = 4096;

/// Checks that the content of a message is text and images.
void checkContent(In content) {
  if (content.raw().is_string())
    return;
  for (In part : content.elements()) {
    std::string type = part["type"].string();
    if (part.ok() && type == "image_url") {
      JsonCursor image = part["image_url"];
      onlyKeys(image, {"url", "detail"});
      image["url"].string();
      continue;
    }
    if (part.ok() && type != "text")
      notSupported(part["type"], "expected \"text\" or \"image_url\"");
    if (part.ok())
      part["text"].string();
  }
}

/// Checks a call of an earlier reply.
void checkCall(In call) {
  if (auto type = call.find("type"); type && type->raw() != "function")
    notSupported(*type, "expected \"function\"");
  JsonCursor function = call["function"];
  function["name"].string();
  JsonCursor arguments = function["arguments"];
  if (!arguments.raw().is_object())
    arguments.string();
}

/// Checks the content of a message in the input of a response, or what a call
/// returned, which has no images: a string, or parts.
void checkParts(In content, bool mayHaveImages) {
  if (content.raw().is_string())
    return;
  for (In part : content.elements()) {
    std::string type = part["type"].string();
    if (part.ok() && type == "input_image" && mayHaveImages) {
      onlyKeys(part, {"type", "image_url", "detail"});
      part["image_url"].string();
      continue;
    }
    if (part.ok() && type != "input_text" && type != "output_text")
      notSupported(part["type"],
                   mayHaveImages
                       ? "expected \"input_text\", \"output_text\" or "
                         "\"input_image\""
                       : "expected \"input_text\" or \"output_text\"");
    if (part.ok())
      part["text"].string();
  }
}

/// Checks an item of the input of a response: a message, a call of an earlier
/// response, or what a call returned.
void checkItem(In item) {
  auto given = item.find("type");
  std::string type = given ? given->string() : "message";
  if (!item.ok())
    return;
  if (type == "message") {
    onlyKeys(item, {"type", "role", "content", "id", "status", "phase"});
    item["role"].string();
    checkParts(item["content"], /*mayHaveImages=*/true);
  } else if (type == "function_call") {
    onlyKeys(item, {"type", "call_id", "name", "arguments", "id", "status"});
    item["call_id"].string();
    item["name"].string();
    item["arguments"].string();
  } else if (type == "function_call_output") {
    onlyKeys(item, {"type", "call_id", "output", "id", "status"});
    item["call_id"].string();
    checkParts(item["output"], /*mayHaveImages=*/false);
  } else {
    notSupported(*given, "expected \"message\", \"function_call\" or "
                         "\"function_call_output\"");
  }
}

/// Checks the input of a response: a text, or items.
void checkInput(In value, Out) {
  if (value.raw().is_string())
    return;
  size_t count = value.count(kMostMessages);
  if (value.ok() && count == 0)
    value.fail("is empty");
  for (size_t i = 0; i < count && value.ok(); ++i)
    checkItem(value.element(i));
}

void checkMessages(In value, Out) {
  size_t count = value.count(kMostMessages);
  if (value.ok() && count == 0)
    value.fail("is empty");
  for (size_t i = 0; i < count && value.ok(); ++i) {
    JsonCursor message = value.element(i);
    message["role"].string();
    if (auto content = message.find("content"))
      checkContent(*content);
    if (auto calls = message.find("tool_calls"))
      for (In call : calls->elements())
        checkCall(call);
  }
}

void checkObject(In value, Out) {
  if (!value.raw().is_object())
    value.expected("an object");
}

void readLogProbs(In value, Out request) {
  if (request.endpoint == Completions)
    request.logProbs = value.integer(0, 20);
  else if (value.boolean() && !request.logProbs)
    request.logProbs = 0;
}

/// Checks that a tool, or a choice of one, is a function.
void checkFunction(In value) {
  std::string type = value["type"].string();
  if (value.ok() && type != "function")
    notSupported(value["type"], "expected \"function\"");
}

/// The name of a function.
std::string readFunctionName(In value) {
  constexpr size_t most = 64;
  std::string name = value.string();
  bool isName =
      !name.empty() && name.size() <= most &&
      std::all_of(name.begin(), name.end(), [](unsigned char byte) {
        return isalnum(byte) || byte == '_' || byte == '-' || byte == '.';
      });
  if (value.ok() && !isName)
    value.fail("is " + quote(name) + ", expected up to " +
               std::to_string(most) + " letters, digits, '_', '-' and '.'");
  return name;
}

/// Reads tools. A function is in `function` of a chat's tool, and is the tool
/// of a response.
void readTools(In value, Out request) {
  constexpr size_t most = 128;
  bool isNested = request.endpoint != Responses;
  for (In tool : value.elements(most)) {
    checkFunction(tool);
    if (isNested)
      onlyKeys(tool, {"type", "function"});
    JsonCursor function = isNested ? tool["function"] : tool;
    if (isNested)
      onlyKeys(function, {"name", "description", "parameters", "strict"});
    else
      onlyKeys(function,
               {"type", "name", "description", "parameters", "strict"});
    std::string name = readFunctionName(function["name"]);
    if (auto text = function.find("description"))
      text->string();
    if (auto schema = function.find("parameters");
        schema && !schema->raw().is_object())
      schema->expected("an object");
    auto &names = request.toolNames;
    if (std::find(names.begin(), names.end(), name) != names.end())
      function["name"].fail("is the name of an earlier tool, too");
    names.push_back(std::move(name));
  }
}

void readToolChoice(In value, Out request) {
  using Choice = Request::ToolChoice;
  const auto &raw = value.raw();
  if (raw.is_object()) {
    bool isNested = request.endpoint != Responses;
    checkFunction(value);
    onlyKeys(value, {"type", isNested ? "function" : "name"});
    request.toolName = (isNested ? value["function"] : value)["name"].string();
    request.toolChoice = Choice::Required;
  } else if (raw == "none" || raw == "auto" || raw == "required") {
    request.toolChoice = raw == "none"   ? Choice::None
                         : raw == "auto" ? Choice::Auto
                                         : Choice::Required;
  } else {
    value.expected("\"none\", \"auto\", \"required\" or a function");
  }
}

void readMetadata(In value, Out request) {
  constexpr size_t most = 16, key = 64, text = 512;
  const auto &raw = value.raw();
  if (!raw.is_object() || raw.size() > most)
    return value.expected("an object of up to 16 strings");
  for (const auto &[name, one] : raw.items())
    if (name.size() > key || value[name].string().size() > text)
      return value.fail("has a key or string that is too long, expected up to "
                        "64 and 512 bytes");
  request.metadata = json(raw);
}

void checkEmpty(In value, Out) {
  if (!value.raw().is_array() || !value.raw().empty())
    notSupported(value, "expected []");
}

void checkForgotten(In value, Out) {
  if (value.boolean())
    notSupported(value, "the server keeps no responses; expected false");
}

void refuseState(In value, Out) {
  notSupported(value, "the server keeps no responses; send the whole input");
}

/// Every field that a client may send. docs/serve.md has the same table.
const Field fields[] = {
    {"model", kWithModel, [](In v, Out r) { r.model = v.string(); }},
    {"prompt", Completions | Tokenize, readPrompts},
    {"input", Embeddings, readPrompts},
    {"tokens", Detokenize,
     [](In v, Out r) {
       r.prompts.push_back({std::nullopt, readIds(v)});
     }},
    {"messages", kWithMessages, checkMessages},
    {"chat_template_kwargs", kWithMessages, checkObject},
    {"add_generation_prompt", kWithMessages,
     [](In v, Out r) { r.addGenerationPrompt = v.boolean(); }},
    {"add_special_tokens", Completions | Embeddings | Tokenize,
     [](In v, Out r) { r.addSpecialTokens = v.boolean(); }},
    // How ids are drawn.
    {"temperature", kSampled,
     [](In v, Out r) { r.temperature = v.number(0, 100); }},
    {"top_p", kSampled, [](In v, Out r) { r.topP = v.number(0, 1); }},
    {"top_k", kSampled, [](In v, Out r) { r.topK = v.integer(-1, INT32_MAX); }},
    {"min_p", kSampled, [](In v, Out r) { r.minP = v.number(0, 1); }},
    {"repetition_penalty", kText,
     [](In v, Out r) { r.repetitionPenalty = v.number(0.01, 100); }},
    {"presence_penalty", kText,
     [](In v, Out r) { r.presencePenalty = v.number(-2, 2); }},
    {"frequency_penalty", kText,
     [](In v, Out r) { r.frequencyPenalty = v.number(-2, 2); }},
    {"seed", kSampled,
     [](In v, Out r) { r.seed = v.integer(INT64_MIN, INT64_MAX); }},
    {"logit_bias", kText, readBias},
    // Where a text ends.
    {"max_tokens", kText,
     [](In v, Out r) {
       if (!r.maxTokens) // max_completion_tokens counts before it
         r.maxTokens = v.integer(0, INT32_MAX);
     }},
    {"max_completion_tokens", ChatCompletions,
     [](In v, Out r) { r.maxTokens = v.integer(0, INT32_MAX); }},
    {"min_tokens", kText,
     [](In v, Out r) { r.minTokens = v.integer(0, INT32_MAX); }},
    {"stop", kText, readStops},
    {"stop_token_ids", kText, [](In v, Out r) { r.stopIds = readIds(v); }},
    {"ignore_eos", kText, [](In v, Out r) { r.ignoreEos = v.boolean(); }},
    // What the answer has.
    {"n", kText, [](In v, Out r) { r.n = v.integer(1, 128); }},
    {"stream", kSampled, [](In v, Out r) { r.stream = v.boolean(); }},
    {"stream_options", kText, readStreamOptions},
    {"echo", Completions, [](In v, Out r) { r.echo = v.boolean(); }},
    {"logprobs", kText, readLogProbs},
    {"top_logprobs", ChatCompletions,
     [](In v, Out r) { r.logProbs = v.integer(0, 20); }},
    {"return_token_ids", kText, [](In v, Out r) { r.returnIds = v.boolean(); }},
    {"skip_special_tokens", kText,
     [](In v, Out r) { r.skipSpecialTokens = v.boolean(); }},
    {"encoding_format", Embeddings,
     [](In v, Out r) {
       std::string format = v.string();
       r.base64 = format == "base64";
       if (v.ok() && !r.base64 && format != "float")
         v.expected("\"float\" or \"base64\"");
     }},
    {"response_format", kText, readResponseFormat},
    {"grammar", kText,
     [](In v, Out r) {
       constrain(v, r, "grammar", CRIA_GRAMMAR_GBNF, v.string());
     }},
    {"modalities", ChatCompletions, readModalities},
    {"tools", kWithMessages | Responses, readTools},
    {"tool_choice", ChatCompletions | Responses, readToolChoice},
    {"parallel_tool_calls", ChatCompletions | Responses,
     [](In v, Out r) { r.parallelCalls = v.boolean(); }},
    {"best_of", Completions,
     [](In v, Out) {
       if (v.integer(1, 128) != 1)
         notSupported(v, "expected 1");
     }},
    {"suffix", Completions,
     [](In v, Out) {
       if (!v.string().empty())
         notSupported(v, "text is only continued");
     }},
    // These do not change the answer.
    {"user", kWithModel},
    {"metadata", kText},
    {"store", kText},
    {"service_tier", kSampled},
    {"safety_identifier", kSampled},
    {"prompt_cache_key", kSampled},
    {"prompt_cache_retention", kSampled},
    // Of responses, which the server forgets.
    {"input", Responses, checkInput},
    {"instructions", Responses,
     [](In v, Out r) { r.instructions = v.string(); }},
    {"max_output_tokens", Responses,
     [](In v, Out r) { r.maxTokens = v.integer(1, INT32_MAX); }},
    {"text", Responses, readTextOptions},
    {"metadata", Responses, readMetadata},
    {"store", Responses, checkForgotten},
    {"background", Responses, checkForgotten},
    {"truncation", Responses,
     [](In v, Out) {
       if (v.string() != "disabled" && v.ok())
         notSupported(v, "expected \"disabled\"");
     }},
    {"include", Responses, checkEmpty},
    {"stream_options", Responses,
     [](In v, Out) { onlyKeys(v, {"include_obfuscation"}); }},
    {"previous_response_id", Responses, refuseState},
    {"conversation", Responses, refuseState},
    {"prompt", Responses, refuseState},
};

const char *pathOf(Endpoint endpoint) {
  switch (endpoint) {
  case Completions:
    return "/v1/completions";
  case ChatCompletions:
    return "/v1/chat/completions";
  case Embeddings:
    return "/v1/embeddings";
  case Tokenize:
    return "/tokenize";
  case Detokenize:
    return "/detokenize";
  case ApplyTemplate:
    return "/apply-template";
  case Responses:
    return "/v1/responses";
  }
  return "";
}

ApiError about(const char *field, const std::string &message,
               const char *code = "") {
  return {400, message, field, code};
}

/// Reads the fields of `root` that the table has. `top_logprobs` sorts after
/// `logprobs`, and `max_tokens` after `max_completion_tokens`.
std::optional<ApiError> readFields(const nlohmann::json &root,
                                   Request &request) {
  for (const auto &[key, value] : root.items()) {
    if (value.is_null())
      continue;
    const std::string &name = key;
    auto field = std::find_if(
        std::begin(fields), std::end(fields), [&](const Field &known) {
          return name == known.name && (known.endpoints & request.endpoint);
        });
    if (field == std::end(fields))
      return about(name.size() < 64 ? name.c_str() : "",
                   quote(name) + " is no field of " + pathOf(request.endpoint),
                   "unknown_parameter");
    if (!field->read)
      continue;
    Status status;
    JsonCursor cursor(root, "", status);
    field->read(cursor[name], request);
    if (!status.ok())
      return about(field->name, status.message(),
                   status.code() == CRIA_UNIMPLEMENTED ? "unsupported_value"
                                                       : "invalid_value");
  }
  return std::nullopt;
}

/// Joins the text parts of a message's content. If it has images, they go to
/// `images`, and the parts stay, as templates read them.
void flatten(json &message, std::vector<std::string> &images) {
  auto content = message.find("content");
  if (content == message.end() || !content->is_array())
    return;
  std::string text;
  size_t before = images.size();
  for (json &part : *content) {
    bool isOfChat = part["type"] == "image_url";
    if (isOfChat || part["type"] == "input_image") {
      json &url = isOfChat ? part["image_url"]["url"] : part["image_url"];
      images.push_back(std::move(url.get_ref<std::string &>()));
      part = {{"type", "image"}};
    } else {
      text += part["text"].get_ref<const std::string &>();
      part["type"] = "text";
    }
  }
  if (images.size() == before)
    *content = text;
}

/// What fields mean beside tools.
std::optional<ApiError> checkTools(const Request &request) {
  const auto &names = request.toolNames;
  if (request.mustCall() && names.empty())
    return about("tool_choice", "'tool_choice' needs 'tools'", "invalid_value");
  if (!request.toolName.empty() &&
      std::find(names.begin(), names.end(), request.toolName) == names.end())
    return about("tool_choice",
                 "'tool_choice' names " + quote(request.toolName) +
                     ", which is none of 'tools'",
                 "invalid_value");
  if (!request.mayCall())
    return std::nullopt;
  auto refuse = [](const char *field, const char *other) {
    return about(
        field, quote(field) + " is not supported together with " + quote(other),
        "unsupported_value");
  };
  if (request.constraint)
    return refuse(request.constrainedBy, "tools");
  if (!request.skipSpecialTokens)
    return refuse("skip_special_tokens", "tools");
  if (request.mustCall() && request.minTokens > 0)
    return refuse("min_tokens", "tool_choice");
  return std::nullopt;
}

/// What the fields mean together.
std::optional<ApiError> checkTogether(const nlohmann::json &root,
                                      int64_t vocabSize,
                                      const Request &request) {
  auto has = [&](const char *name) {
    auto found = root.find(name);
    return found != root.end() && !found->is_null();
  };
  bool isChat = request.endpoint & (ChatCompletions | ApplyTemplate);
  bool hasInput = request.endpoint & (Embeddings | Responses);
  const char *needed = isChat                           ? "messages"
                       : hasInput                       ? "input"
                       : request.endpoint == Detokenize ? "tokens"
                                                        : "prompt";
  bool isThere = has(needed);
  if (request.endpoint == Tokenize)
    isThere = has("prompt") != has("messages");
  if (!isThere)
    return about(needed, std::string("'") + needed + "' is missing",
                 "missing_required_parameter");
  auto checkIds = [&](const char *field, int64_t id) {
    return id < vocabSize
               ? std::optional<ApiError>()
               : about(field,
                       "id " + std::to_string(id) + " in '" + field +
                           "', expected 0 to " + std::to_string(vocabSize - 1),
                       "invalid_value");
  };
  for (const Prompt &prompt : request.prompts)
    for (int32_t id : prompt.ids)
      if (auto error = checkIds(needed, id))
        return error;
  for (auto [id, bias] : request.bias)
    if (auto error = checkIds("logit_bias", id))
      return error;
  for (int32_t id : request.stopIds)
    if (auto error = checkIds("stop_token_ids", id))
      return error;
  if ((request.endpoint & Tokenize) && request.prompts.size() > 1)
    return about("prompt", "'prompt' has several texts, expected one",
                 "invalid_value");
  int64_t texts = static_cast<int64_t>(request.prompts.size()) * request.n;
  if (texts > kMostTexts)
    return about("n",
                 "the request asks for " + std::to_string(texts) +
                     " texts, expected at most " + std::to_string(kMostTexts),
                 "invalid_value");
  if (auto error = checkTools(request))
    return error;
  if (request.constraint && request.minTokens > 0)
    return about("min_tokens",
                 std::string("'min_tokens' is not supported together with '") +
                     request.constrainedBy + "'",
                 "unsupported_value");
  if (request.endpoint == ChatCompletions && has("top_logprobs") &&
      !(has("logprobs") && root["logprobs"] == true))
    return about("top_logprobs", "'top_logprobs' needs 'logprobs': true",
                 "invalid_value");
  if (has("stream_options") && !request.stream)
    return about("stream_options", "'stream_options' needs 'stream': true",
                 "invalid_value");
  return std::nullopt;
}

/// Adds a call of an earlier response to the last message, or to a new one.
void addCall(json &messages, json &item) {
  if (messages.empty() || messages.back()["role"] != "assistant")
    messages.push_back({{"role", "assistant"}, {"content", ""}});
  messages.back()["tool_calls"].push_back(
      {{"id", std::move(item["call_id"])},
       {"type", "function"},
       {"function",
        {{"name", std::move(item["name"])},
         {"arguments", std::move(item["arguments"])}}}});
}

/// The messages of a response's input, with its instructions before them, as a
/// chat has them. Its images go to `images`.
json messagesOf(json &input, const json &instructions,
                std::vector<std::string> &images) {
  json messages = json::array();
  if (!instructions.is_null())
    messages.push_back({{"role", "system"}, {"content", instructions}});
  if (input.is_string())
    input = json::array({{{"role", "user"}, {"content", input}}});
  for (json &item : input) {
    json type = item.value("type", json());
    if (type == "function_call") {
      addCall(messages, item);
      continue;
    }
    if (type == "function_call_output") {
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", std::move(item["call_id"])},
                          {"content", std::move(item["output"])}});
      flatten(messages.back(), images);
      continue;
    }
    bool isDeveloper = item["role"] == "developer"; // no template knows it
    messages.push_back({{"role", isDeveloper ? json("system") : item["role"]},
                        {"content", std::move(item["content"])}});
    flatten(messages.back(), images);
  }
  return messages;
}

/// The tools of a response, as a chat has them.
json nested(json tools) {
  for (json &tool : tools) {
    json function = std::move(tool);
    function.erase("type");
    tool = {{"type", "function"}, {"function", std::move(function)}};
  }
  return tools;
}

/// Reads the arguments of a message's calls, for templates that write them by
/// themselves. Of a call without arguments, clients send an empty text.
std::optional<ApiError> readArguments(json &message, const char *field) {
  auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array())
    return std::nullopt;
  for (json &call : *calls) {
    json &arguments = call["function"]["arguments"];
    if (!arguments.is_string())
      continue;
    if (arguments == "")
      arguments = "{}";
    const auto &text = arguments.get_ref<const std::string &>();
    Result<JsonDocument> document = parseJson(text, "arguments of a call");
    if (!document.ok() || !document->root().is_object())
      return about(field,
                   quote(field) + (document.ok()
                                       ? " has arguments of a call that are no "
                                         "JSON object"
                                       : ": " + document.status().message()),
                   "invalid_value");
    arguments = json::parse(text);
  }
  return std::nullopt;
}

} // namespace

std::optional<ApiError> parseRequest(Endpoint endpoint, std::string_view body,
                                     int64_t vocabSize, Request &request) {
  request.endpoint = endpoint;
  JsonLimits limits;
  limits.string = limits.bytes;
  Result<JsonDocument> document = parseJson(body, "the body", limits);
  if (!document.ok())
    return ApiError{400, document.status().message(), "", "invalid_json"};
  const nlohmann::json &root = document->root();
  if (!root.is_object())
    return ApiError{400, "the body is no JSON object", "", "invalid_json"};
  if (auto error = readFields(root, request))
    return error;
  if (auto error = checkTogether(root, vocabSize, request))
    return error;
  bool hasSchema = request.constraint && request.constraint->source.empty() &&
                   request.constraint->kind == CRIA_GRAMMAR_JSON_SCHEMA;
  bool isResponse = endpoint == Responses;
  if (!root.contains("messages") && !hasSchema && !isResponse)
    return std::nullopt;
  // Once more, with the members of objects in their order.
  json ordered = json::parse(body);
  if (hasSchema)
    request.constraint->source = toText(
        isResponse ? ordered["text"]["format"]["schema"]
                   : ordered["response_format"]["json_schema"]["schema"]);
  if (isResponse) {
    request.messages =
        messagesOf(ordered["input"], request.instructions, request.images);
    for (json &message : request.messages)
      if (auto error = readArguments(message, "input"))
        return error;
    if (!request.toolNames.empty())
      request.askedTools = std::move(ordered["tools"]);
    if (request.mayCall())
      request.tools = nested(request.askedTools);
    if (request.constraint)
      request.textFormat = std::move(ordered["text"]["format"]);
    return std::nullopt;
  }
  if (!root.contains("messages"))
    return std::nullopt;
  request.messages = std::move(ordered["messages"]);
  for (json &message : request.messages) {
    flatten(message, request.images);
    if (auto error = readArguments(message, "messages"))
      return error;
  }
  if (request.mayCall())
    request.tools = std::move(ordered["tools"]);
  auto options = ordered.find("chat_template_kwargs");
  if (options != ordered.end() && !options->is_null())
    request.templateOptions = std::move(*options);
  return std::nullopt;
}

} // namespace cria::serve
