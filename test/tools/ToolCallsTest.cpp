/// Calls of tools in replies, in the formats of templates in use.
#include "tools/serve/ToolCalls.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

using namespace cria;
using namespace cria::serve;
using namespace cria::test;

namespace cria::serve {
bool operator==(const Call &a, const Call &b) {
  return a.name == b.name && a.arguments == b.arguments;
}
void PrintTo(const Call &call, std::ostream *out) {
  *out << call.name << "(" << call.arguments << ")";
}
} // namespace cria::serve

namespace {

struct Reply {
  std::string text;
  std::vector<Call> calls;
};

/// A reply that came in pieces of `size` bytes. U+0001 stands for the special
/// token before calls.
Reply read(CallFormat format, const std::string &text, size_t size,
           bool isForced = false) {
  CallReader reader(format, {"f", "get_weather"}, isForced);
  Reply reply;
  auto take = [&] {
    reply.text += reader.takeText();
    for (Call &call : reader.takeCalls())
      reply.calls.push_back(std::move(call));
  };
  for (size_t at = 0; at < text.size(); at += size) {
    std::string piece = text.substr(at, size);
    for (char byte : piece)
      if (byte == '\1')
        reader.pushMarker();
      else
        reader.push({&byte, 1});
    take();
  }
  reader.finish();
  take();
  return reply;
}

/// `text` reads as this, however it is cut.
void expectReply(CallFormat format, const std::string &text,
                 const std::string &content, const std::vector<Call> &calls,
                 bool isForced = false) {
  for (size_t size : {size_t{1}, size_t{2}, size_t{7}, text.size() + 1}) {
    Reply reply = read(format, text, size, isForced);
    EXPECT_EQ(reply.text, content) << text << " in pieces of " << size;
    EXPECT_EQ(reply.calls, calls) << text << " in pieces of " << size;
  }
}

const Call kF{"f", R"({"x": 1})"};

} // namespace

TEST(ToolCalls, OfHermes) {
  auto expect = [](const std::string &text, const std::string &content,
                   const std::vector<Call> &calls) {
    expectReply(CallFormat::Hermes, text, content, calls);
  };
  const std::string call =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>";
  expect(call, "", {kF});
  expect("Let me see.\n" + call + "\n" + call + "\n", "Let me see.", {kF, kF});
  expect(call + "\nDone. ", "\nDone. ", {kF});
  expect("<tool_call>" + call, "<tool_call>", {kF});
  expect("<<tool_call" + call, "<<tool_call", {kF});
  // The end of the text closes a call.
  expect(call.substr(0, call.size() - 5), "", {kF});
  // Strings may have braces and markers; arguments stay as they are written.
  const std::string odd =
      R"({"a": "}</tool_call>{\"", "b" :[1e0,{"n":12345678901234567890123}]})";
  expect("<tool_call>{\"arguments\": " + odd +
             ", \"name\": \"get_weather\"}</tool_call>",
         "", {{"get_weather", odd}});
}

TEST(ToolCalls, ThatAreNoneStayText) {
  for (const char *text :
       {"", " ", "\n\nHello <b>", "<tool_call>",
        "<tool_call>\n{\"name\": \"f\"",
        "<tool_call>{\"name\": \"f\"}</tool_call>",
        "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": []}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"{}\"}</tool_call>",
        "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {}} or so</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {]}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {},}</tool_call>",
        "<tool_call>[]</tool_call>", "<tool_call>{}</tool_call> ",
        "{\"name\": \"f\", \"arguments\": {}}"})
    expectReply(CallFormat::Hermes, text, text, {});
  for (const char *text :
       {"[TOOL_CALLS]", "[TOOL_CALLS] []", "[TOOL_CALLS] [1]",
        "[TOOL_CALLS] {\"name\": \"f\", \"arguments\": {}}",
        "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\"}]",
        "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}", "[[TOOL_CALLS"})
    expectReply(CallFormat::Mistral, text, text, {});
  for (const char *text :
       {"{\"name\": \"f\"}", "{\"name\": \"Ann\", \"parameters\": {}}",
        "{\"name\": \"f\", \"parameters\": {}} is what I would call.",
        "{\"name\": \"f\", \"parameters\": {}}; {\"a\": 1}",
        "Call {\"name\": \"f\", \"parameters\": {}}", "{", "  ", "<|python",
        "<|python_tag|>print(1)"})
    expectReply(CallFormat::Json, text, text, {});
  expectReply(CallFormat::None, "<tool_call>{}", "<tool_call>{}", {});
}

TEST(ToolCalls, OfMistral) {
  const std::string list = R"([{"name": "f", "arguments": {"x": 1}}, )"
                           R"({"name": "get_weather", "arguments": {}}])";
  const std::vector<Call> both = {kF, {"get_weather", "{}"}};
  expectReply(CallFormat::Mistral, "[TOOL_CALLS] " + list, "", both);
  expectReply(CallFormat::Mistral, "Well. [TOOL_CALLS]" + list, "Well.", both);
  // The special token is not in the text, and not in what is no call.
  expectReply(CallFormat::Mistral, "Well. \1" + list + " ", "Well.", both);
  expectReply(CallFormat::Mistral, "a\1 b", "a b", {});
  expectReply(CallFormat::Mistral, "\1[{\1" + list, "[{", both);
}

TEST(ToolCalls, OfLlama) {
  const std::string call = R"({"name": "f", "parameters": {"x": 1}})";
  expectReply(CallFormat::Json, call, "", {kF});
  expectReply(CallFormat::Json, "\n" + call + "; \n" + call, "", {kF, kF});
  expectReply(CallFormat::Json, "<|python_tag|>" + call, "", {kF});
  expectReply(CallFormat::Json, "\1" + call, "", {kF});
  expectReply(CallFormat::Json,
              R"({"type": "function", "name": "f", "parameters": {"x": 1}})",
              "", {kF});
}

TEST(ToolCalls, ThatAreForced) {
  expectReply(CallFormat::Hermes, R"({"name": "f", "arguments": {"x": 1}})", "",
              {kF}, true);
  expectReply(CallFormat::Mistral, R"([{"name": "f", "arguments": {"x": 1}}])",
              "", {kF}, true);
  expectReply(CallFormat::Hermes, R"({"name": "f", "argum)",
              R"({"name": "f", "argum)", {}, true);
}

// A schema of calls is one of their JSON; references stay within parameters.
TEST(ToolCalls, SchemasOfForcedCalls) {
  json tools = json::parse(R"([
    {"type": "function", "function": {"name": "f", "parameters": {
      "type": "object", "properties": {"enum": {"$ref": "#/$defs/a"}},
      "enum": [{"$ref": "#/b"}], "$defs": {"a": {"$ref": "#"}}}}},
    {"type": "function", "function": {"name": "g"}}])");
  ForcedCall any = forceCall(CallFormat::Hermes, tools, "", true);
  EXPECT_EQ(any.prefix, "<tool_call>\n");
  json schema = json::parse(any.schema);
  const json &parameters = schema["anyOf"][0]["properties"]["arguments"];
  const std::string place = "#/anyOf/0/properties/arguments";
  EXPECT_EQ(parameters["properties"]["enum"]["$ref"], place + "/$defs/a");
  EXPECT_EQ(parameters["$defs"]["a"]["$ref"], place);
  EXPECT_EQ(parameters["enum"][0]["$ref"], "#/b");
  EXPECT_EQ(schema["anyOf"][1]["properties"]["arguments"]["type"], "object");
  EXPECT_EQ(schema["anyOf"].size(), 2u);
  json one =
      json::parse(forceCall(CallFormat::Mistral, tools, "g", false).schema);
  EXPECT_EQ(one["items"]["anyOf"].size(), 1u);
  EXPECT_EQ(one["maxItems"], 1);
  ForcedCall bare = forceCall(CallFormat::Json, tools, "g", true);
  EXPECT_EQ(bare.prefix, "");
  EXPECT_EQ(json::parse(bare.schema)["anyOf"][0]["required"][1], "parameters");
}

// The format is the one in which the template writes a call.
TEST(ToolCalls, FormatsOfTemplates) {
  const std::string source = CRIA_SOURCE_FOLDER;
  Tokenizer tokenizer(source + "/examples/tiny/tokenizer.json");
  const std::vector<std::pair<const char *, CallFormat>> templates = {
      {"llama-3.1", CallFormat::Json},   {"qwen2.5", CallFormat::Hermes},
      {"qwen3", CallFormat::Hermes},     {"mistral-v0.3", CallFormat::Mistral},
      {"llama-3", CallFormat::None},     {"gemma-3", CallFormat::None},
      {"deepseek-r1", CallFormat::None}, {"granite-3", CallFormat::None},
      {"smollm2", CallFormat::None},
  };
  for (const auto &[name, format] : templates) {
    TemporaryFolder folder;
    folder.write("tokenizer_config.json",
                 R"({"bos_token": "<s>", "eos_token": "</s>"})");
    std::filesystem::copy_file(source + "/test/runtime/data/chat/" + name +
                                   ".jinja",
                               folder.path() + "/chat_template.jinja");
    CallSyntax syntax = callSyntaxOf(Chat(folder.path()), tokenizer);
    EXPECT_EQ(syntax.format, format) << name;
    EXPECT_FALSE(syntax.marker.has_value());
  }
}
