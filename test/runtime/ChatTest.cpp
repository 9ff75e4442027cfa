/// Chat templates from files, and hostile ones. That the language means what
/// Jinja's does is for chat-templates.test.
#include "runtime/chat/Template.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>

using namespace cria;
using namespace cria::test;
using cria::chat::Template;
using nlohmann::json;

static nlohmann::ordered_json conversation() {
  return {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
          {"add_generation_prompt", true}};
}

static Result<std::string> render(const std::string &source) {
  Result<Template> parsed = Template::parse(source, "t.jinja");
  return parsed.ok() ? parsed->render(conversation())
                     : Result<std::string>(parsed.status());
}

static Result<std::string> loadAndRender(const TemporaryFolder &folder) {
  Result<Template> loaded = Template::load(folder.path());
  return loaded.ok() ? loaded->render(conversation())
                     : Result<std::string>(loaded.status());
}

static std::string text(const Result<std::string> &result) {
  return result.ok() ? *result : result.status().message();
}

TEST(Chat, RendersWithTheSpecialTokensOfTheFolder) {
  TemporaryFolder folder;
  folder.write("tokenizer_config.json",
               R"({"bos_token": {"content": "<s>", "lstrip": false},
                "eos_token": "</s>", "unk_token": null,
                "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ unk_token is defined }}"})");
  EXPECT_EQ(text(loadAndRender(folder)), "<s>Hi</s>False");
  folder.write("chat_template.jinja", "file {{ eos_token }}\n");
  EXPECT_EQ(text(loadAndRender(folder)), "file </s>");
}

TEST(Chat, TakesTheDefaultOfSeveralTemplates) {
  TemporaryFolder folder;
  json list = {{{"name", "tool_use"}, {"template", "tools"}},
               {{"name", "default"}, {"template", "chat"}}};
  folder.write("tokenizer_config.json", json{{"chat_template", list}}.dump());
  EXPECT_EQ(text(loadAndRender(folder)), "chat");
  list.erase(1);
  folder.write("tokenizer_config.json", json{{"chat_template", list}}.dump());
  EXPECT_THAT(loadAndRender(folder).status(),
              fails(CRIA_NOT_FOUND, "no template named 'default'"));
}

TEST(Chat, SaysWhatIsWrongWithTheFiles) {
  TemporaryFolder folder;
  EXPECT_THAT(loadAndRender(folder).status(),
              fails(CRIA_NOT_FOUND, "no chat template"));
  for (const char *config :
       {R"({"chat_template": 3})", R"({"chat_template": [{"name": 3}]})",
        R"({"bos_token": 3, "chat_template": ""})",
        R"({"bos_token": {}, "chat_template": ""})", "{", "[]",
        R"({"a": 1, "a": 2})"}) {
    folder.write("tokenizer_config.json", config);
    EXPECT_THAT(loadAndRender(folder).status(),
                fails(CRIA_INVALID_ARGUMENT, "tokenizer_config.json: "))
        << config;
  }
  folder.write("tokenizer_config.json", std::string(100'000, '[') + "]");
  EXPECT_THAT(loadAndRender(folder).status(),
              fails(CRIA_INVALID_ARGUMENT, "nested deeper than 64"));
  folder.write("tokenizer_config.json", "{}");
  folder.write("chat_template.jinja", "\xFF");
  EXPECT_THAT(loadAndRender(folder).status(),
              fails(CRIA_INVALID_ARGUMENT, "not UTF-8 at byte 0"));
  folder.write("chat_template.jinja", std::string(1 << 20, 'x'));
  EXPECT_THAT(loadAndRender(folder).status(),
              fails(CRIA_INVALID_ARGUMENT, "chat_template.jinja"));
}

TEST(Chat, NamesLineAndFault) {
  EXPECT_THAT(render("a\n{{ nope.x }}").status(),
              fails(CRIA_INVALID_ARGUMENT,
                    "t.jinja: chat template: line 2: 'nope' is undefined"));
  EXPECT_THAT(render("{{ raise_exception('no\nsystem') }}").status(),
              fails(CRIA_INVALID_ARGUMENT, "the template says: 'no\\nsystem'"));
  EXPECT_THAT(render("\n\n{% if x %}").status(),
              fails(CRIA_INVALID_ARGUMENT, "line 3: expected 'endif'"));
}

TEST(Chat, RefusesWhatItDoesNotDoByName) {
  for (const char *source :
       {"{% raw %}x{% endraw %}", "{% include 'x' %}", "{% call m() %}",
        "{% filter upper %}", "{{ 1 | groupby('x') }}", "{{ 2 ** 3 }}",
        "{{ 1 is filter }}", "{% for i in [] recursive %}{% endfor %}",
        "{% set n = namespace() %}{% set n.l = [n] %}", "{{ '%s' % 1 }}",
        "{{ ''.__class__ }}", "{{ {1: 2} }}"})
    EXPECT_THAT(render(source).status(),
                fails(CRIA_UNIMPLEMENTED, "is not supported"))
        << source;
}

static std::string repeated(const std::string &unit, int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += unit;
  return text;
}

static long peakMegabytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

static const std::string loops = "{% for i in range(100000) %}";
static const std::string doubling =
    "{% set n = namespace(s='x', l=[1]) %}" + loops;
static const std::string hostile[] = {
    repeated(loops, 9) + repeated("{% endfor %}", 9),
    repeated(loops, 2) + "some text" + repeated("{% endfor %}", 2),
    "{{ range(1000000000) }}",
    "{{ 'x' * 1000000000 }}",
    "{{ [1] * 1000000000 }}",
    "{{ ('x' * 1000000) * 1000000 }}",
    doubling + "{% set n.s = n.s ~ n.s %}{% endfor %}",
    doubling + "{% set n.s = n.s + n.s %}{% endfor %}",
    doubling + "{% set n.s = n.s | replace('x', 'xx') %}{% endfor %}",
    doubling + "{% set n.s = [n.s, n.s] | join(n.s) %}{% endfor %}",
    doubling + "{% set n.l = n.l + n.l %}{% endfor %}",
    doubling + "{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}",
    doubling + "{% set n.l = [n.l] %}{% endfor %}{{ n.l == n.l }}",
    doubling +
        "{% set n.l = {'a': n.l, 'b': n.l} %}{% endfor %}{{ n.l|tojson }}",
    doubling + "{% set n.s = n.s ~ 'y' %}{{ n.s }}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f(x) %}{% if 1 %}{% if 1 %}{% for i in [1] %}{{ f(x + [x]) }}"
    "{% endfor %}{% endif %}{% endif %}{% endmacro %}{{ f([]) }}",
    "{{ [1]|tojson(indent=1000000000)|length / 0 }}",
    "{{ strftime_now('%1000000000d') }}",
    "{{ 9223372036854775807 + 1 }}",
    "{{ (-9223372036854775807 - 1) // -1 }}",
    "{{ 99999999999999999999 }}",
    "{{ " + repeated("(", 100'000) + "1 }}",
    "{{ " + repeated("not ", 50'000) + "1 }}",
    "{{ " + repeated("-", 100'000) + "1 }}",
    "{{ 1" + repeated(" + 1", 60'000) + " }}",
    "{{ x" + repeated(".x", 100'000) + " }}",
    "{{ x" + repeated("|trim", 50'000) + " }}",
    "{{ x" + repeated(" is none", 20'000) + " }}",
    "{{ 1" + repeated(" if 1 else 1", 20'000) + " }}",
    "{{ " + repeated("[", 100'000) + " }}",
    "{{ " + repeated("{'a':", 40'000) + " }}",
    repeated("{% if 1 %}", 25'000),
    repeated("{% set x %}", 20'000),
    "{% if 1 %}" + repeated("{% elif 1 %}", 20'000)};

// Whatever a template does, it ends soon, with an error, in bounded memory.
TEST(Chat, StopsHostileTemplates) {
  long before = peakMegabytes();
  for (const std::string &source : hostile) {
    auto start = std::chrono::steady_clock::now();
    Result<std::string> text = render(source);
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    EXPECT_FALSE(text.ok()) << source.substr(0, 100);
    EXPECT_LT(seconds.count(), 10) << source.substr(0, 100);
  }
  EXPECT_LT(peakMegabytes(), before + 600);
}

// Deep values made by a loop are taken apart without deep recursion.
TEST(Chat, BoundsTheDepthOfValues) {
  EXPECT_THAT(render("{% set n = namespace(l=[]) %}{% for i in range(50000) %}"
                     "{% set n.l = [n.l] %}{% endfor %}{{ n.l|length }}")
                  .status(),
              fails(CRIA_RESOURCE_EXHAUSTED, "nested deeper"));
}
