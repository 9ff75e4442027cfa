/// Chat templates from files, and hostile ones. chat-templates.test compares
/// the language with Jinja.
#include "runtime/text/chat/Template.h"

#include "runtime/text/Stack.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <functional>
#include <utility>
#include <vector>

using namespace cria;
using namespace cria::test;
using cria::chat::Template;
using nlohmann::json;

static const char *conversation() {
  return R"({"messages": [{"role": "user", "content": "Hi"}],
             "add_generation_prompt": true})";
}

static Result<std::string>
render(const std::string &source,
       const std::string &variables = conversation()) {
  Result<Template> parsed = Template::parse(source, "t.jinja");
  return parsed.ok() ? parsed->render(variables)
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

// As transformers does: a model's own tokens, too; and special_tokens_map.json
// where the config does not list added tokens.
TEST(Chat, KnowsTheTokensOfTheModel) {
  TemporaryFolder folder;
  folder.write("chat_template.jinja",
               "{{ bos_token }}{{ image_token }}{{ end_token }}"
               "{{ add_bos_token is defined }}");
  std::string config = R"({"bos_token": "<s>", "image_token": "<i>",
      "add_bos_token": true, "extra_special_tokens": {"end_token": "<e>"}})";
  folder.write("tokenizer_config.json", config);
  EXPECT_EQ(text(loadAndRender(folder)), "<s><i><e>False");
  folder.write("special_tokens_map.json", R"({"bos_token": "<t>"})");
  EXPECT_EQ(text(loadAndRender(folder)), "<t><i><e>False");
  folder.write("tokenizer_config.json",
               R"({"added_tokens_decoder": {},)" + config.substr(1));
  EXPECT_EQ(text(loadAndRender(folder)), "<s><i><e>False");
  folder.write("special_tokens_map.json", R"({"bos_token": 1})");
  folder.write("tokenizer_config.json", config);
  EXPECT_EQ(text(loadAndRender(folder)),
            folder.path() + "/special_tokens_map.json: 'bos_token' is 1, "
                            "expected a string");
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

TEST(Chat, TakesTheTemplateOfAProcessor) {
  TemporaryFolder folder;
  folder.write("tokenizer_config.json", R"({"chat_template": "tokenizer"})");
  folder.write("chat_template.json", R"({"chat_template": "processor"})");
  EXPECT_EQ(text(loadAndRender(folder)), "processor");
  folder.write("chat_template.json", "{}");
  EXPECT_THAT(loadAndRender(folder).status(),
              fails(CRIA_INVALID_ARGUMENT,
                    "chat_template.json: 'chat_template' is missing"));
  folder.write("chat_template.jinja", "alone");
  EXPECT_EQ(text(loadAndRender(folder)), "alone");
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
       {"{% include 'x' %}", "{% block x %}{% endblock %}",
        "{{ 1 | groupby('x') }}", "{{ '<' | urlize }}", "{{ 1 is filter }}",
        "{% for i in [] recursive %}{% endfor %}",
        "{% for i, (k, v) in [] %}{% endfor %}",
        "{% set n = namespace() %}{% set n.l = [n] %}", "{{ '%x' % 1 }}",
        "{{ '{:>3}'.format(1) }}", "{{ ''.__class__ }}", "{{ {(1,): 2} }}",
        "{{ '%s' | safe % 1 }}"})
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
    "{{ range(1000000000) }}", "{{ 'x' * 1000000000 }}",
    "{{ [1] * 1000000000 }}", "{{ ('x' * 1000000) * 1000000 }}",
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
    "{{ [1]|batch(1000000000, 'x')|list }}", "{{ 'a'|center(1000000000) }}",
    "{{ '%1000000000d' % 1 }}", "{{ 'a'|indent(1000000000, true) }}",
    "{{ 3 ** 1000000000 }}", "{{ range(100000)|unique|list }}",
    "{{ nope(*range(100000), *range(100000)) }}",
    doubling + "{% macro m() %}{% endmacro %}{% call m(*range(1000)) %}" +
        "{% endcall %}{% endfor %}",
    "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}"
    "{{ f() }}",
    loops + "{% macro m() %}{% endmacro %}{% endfor %}" + loops +
        "{% with a = range(1000) | list %}{% endwith %}{% endfor %}",
    "{{ strftime_now('%1000000000d') }}",
    "{{ 170141183460469231731687303715884105727 + 1 }}",
    "{{ (-170141183460469231731687303715884105727 - 1) // -1 }}",
    "{{ 999999999999999999999999999999999999999 }}",
    "{{ '999999999999999999999999999999999999999'|int }}", "{{ 1e39|int }}",
    "{{ 9007199254740993 / 3 }}",
    // Keys, separators and names that are copied again and again.
    "{% set d = {'k' * 1000000: 1} %}{{ [" + repeated("dict(d),", 2200) +
        "] }}",
    "{% set d = {'k' * 1000000: 1} %}{% set l = [" +
        repeated("namespace(d),", 2200) + "] %}",
    "{{ range(100000)|list|tojson(separators=('x' * 1000000, ':')) }}",
    "{% set n = namespace(l=[]) %}" + loops + "{% set n.l = n.l + [" +
        std::string(100'000, 'u') + "] %}{% endfor %}",
    // Filters that apply themselves, and many arguments.
    "{{ 'a'|map(" + repeated("'map',", 20'000) + "'upper')|list }}",
    "{{ 'a'|map(" + repeated("'map',", 250) + "'upper')|list }}",
    "{% set r = range(100000)|map('default'" + repeated(",1", 100'000) + ") %}",
    "{{ range(" + repeated("a=1,", 50'000) + ") }}",
    "{% macro f(" + repeated("a,", 50'000) + ") %}{% endmacro %}",
    // Where the depth of one operand does not count.
    "{{ " + repeated("1 is eq [", 60) + "1" +
        repeated("]" + repeated(".a", 150), 60) + " }}",
    "{{ " + repeated("(", 100'000) + "1 }}",
    "{{ " + repeated("not ", 50'000) + "1 }}",
    "{{ " + repeated("-", 100'000) + "1 }}",
    "{{ 1" + repeated(" + 1", 60'000) + " }}",
    "{{ x" + repeated(".x", 100'000) + " }}",
    "{{ x" + repeated("|trim", 50'000) + " }}",
    "{{ x" + repeated(" is none", 20'000) + " }}",
    "{{ 1" + repeated(" if 1 else 1", 20'000) + " }}",
    "{{ " + repeated("[", 100'000) + " }}",
    "{{ " + repeated("{'a':", 40'000) + " }}", repeated("{% if 1 %}", 25'000),
    repeated("{% set x %}", 20'000),
    "{% if 1 %}" + repeated("{% elif 1 %}", 20'000)};

// Whatever a template does, it ends soon, with an error, in bounded memory. The
// bars are far above what any template takes, and far below what an uncharged
// one would.
TEST(Chat, StopsHostileTemplates) {
  long before = peakMegabytes();
  for (const std::string &source : hostile) {
    double start = processorSeconds();
    Result<std::string> text = render(source);
    EXPECT_FALSE(text.ok()) << source.substr(0, 100);
    EXPECT_LT(processorSeconds() - start, 10 * sanitizerFactor)
        << source.substr(0, 100);
  }
  // A sanitizer keeps notes of each byte.
  EXPECT_LT(peakMegabytes(), before + (sanitizerFactor > 1 ? 1800 : 600));
}

// A text that nearly matches everywhere: the product of the lengths is 4e12.
TEST(Chat, SearchesInLinearTime) {
  std::string texts = "{% set s = 'a' * 4000000 %}{% set end = 'a' * 1000000 ~ "
                      "'b' %}{% set begin = 'b' ~ 'a' * 1000000 %}";
  for (auto [expression, expected] :
       std::vector<std::pair<const char *, const char *>>{
           {"s.find(end)", "-1"},
           {"s.rfind(end)", "-1"},
           {"s.find(begin)", "-1"},
           {"s.rfind(begin)", "-1"},
           {"end in s", "False"},
           {"begin in s", "False"},
           {"s.count(end)", "0"},
           {"s.count(begin)", "0"},
           {"s.replace(end, '')|length", "4000000"},
           {"s.replace(begin, '')|length", "4000000"},
           {"s.split(end)|length", "1"},
           {"s.split(begin)|length", "1"},
           {"s.rsplit(end)|length", "1"},
           {"s.rsplit(begin)|length", "1"}}) {
    double start = processorSeconds();
    EXPECT_EQ(text(render(texts + "{{ " + expression + " }}")), expected);
    EXPECT_LT(processorSeconds() - start, 10 * sanitizerFactor) << expression;
  }
}

// One operand in the middle of two comparisons is one operand: it was two
// copies, and so 2^50 of the innermost here.
TEST(Chat, ComparesInChains) {
  EXPECT_EQ(text(render("{{ " + repeated("1 < (", 40) + "1" +
                        repeated(") < 3", 40) + " }}")),
            "False");
  EXPECT_EQ(text(render("{% set n = namespace(i=0) %}{% macro two() %}"
                        "{% set n.i = n.i + 1 %}2{% endmacro %}"
                        "{{ '1' < two() < '3' }}{{ n.i }}")),
            "True1");
}

TEST(Chat, TakesObjectsOfManyKeys) {
  std::string variables = "{\"messages\": []";
  for (int i = 0; i < 200'000; ++i)
    variables += ",\"" + std::to_string(i) + "\":" + std::to_string(i);
  double start = processorSeconds();
  EXPECT_EQ(text(render("{{ messages }}", variables + "}")), "[]");
  EXPECT_LT(processorSeconds() - start, 10 * sanitizerFactor);
  EXPECT_THAT(render("", variables + ", \"77\": 0}").status(),
              fails(CRIA_INVALID_ARGUMENT, "duplicate key '77'"));
}

TEST(Chat, SaysWhatIsWrongWithTheVariables) {
  EXPECT_THAT(render("", "[]").status(),
              fails(CRIA_INVALID_ARGUMENT, "variables: expected an object"));
  EXPECT_THAT(render("", "{").status(),
              fails(CRIA_INVALID_ARGUMENT, "variables: at byte 1: "));
  EXPECT_THAT(
      render("", "{\"a\": " + repeated("[", 64) + "1" + repeated("]", 64) + "}")
          .status(),
      fails(CRIA_INVALID_ARGUMENT, "nested deeper than 64"));
  EXPECT_THAT(render("", "{\"a\": -" + std::string(60, '9') + "}").status(),
              fails(CRIA_UNIMPLEMENTED, "has more than 127 bits"));
}

TEST(Chat, KeepsLargeIntegers) {
  EXPECT_EQ(text(render("{{ a|tojson }} {{ a + 1 }}",
                        R"({"a": 18446744073709551615})")),
            "18446744073709551615 18446744073709551616");
  EXPECT_EQ(text(render("{{ a }}", "{\"a\": -170141183460469231731687303715"
                                   "884105728}")),
            "-170141183460469231731687303715884105728");
}

// Deep values made by a loop are taken apart without deep recursion.
TEST(Chat, BoundsTheDepthOfValues) {
  EXPECT_THAT(render("{% set n = namespace(l=[]) %}{% for i in range(50000) %}"
                     "{% set n.l = [n.l] %}{% endfor %}{{ n.l|length }}")
                  .status(),
              fails(CRIA_RESOURCE_EXHAUSTED, "nested deeper"));
  // The variable "loop" holds the elements beside its own.
  EXPECT_THAT(
      render("{% macro f(x, n) %}{% for y in [x, 1] %}{% if loop.last and n %}"
             "{{ f(" +
             repeated("[", 50) + "loop" + repeated("]", 50) +
             ", n - 1) }}{% endif %}{% endfor %}{% endmacro %}{{ f(1, 20) }}")
          .status(),
      fails(CRIA_RESOURCE_EXHAUSTED, "nested deeper"));
}

// ---- Stacks -----------------------------------------------------------------

/// Runs `work` on a thread with a stack of `bytes`, and no more: one that the C
/// library provides may have served a thread with a larger one before.
static void runOnStack(size_t bytes, std::function<void()> work) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void *memory = mmap(nullptr, page + bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(memory, page, PROT_NONE), 0);
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstack(&attributes,
                                  static_cast<char *>(memory) + page, bytes),
            0);
  auto run = [](void *argument) -> void * {
    (*static_cast<std::function<void()> *>(argument))();
    return nullptr;
  };
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  munmap(memory, page + bytes);
}

/// Templates that nest as deep as they may, and a little deeper.
static std::vector<std::string> deepest() {
  std::vector<std::string> all;
  // Expressions, which the parser and the evaluator recurse on.
  std::vector<std::pair<std::string, std::string>> around = {
      {"(", ")"},
      {"[", "]"},
      {"(1,", ")"},
      {"{'a': ", "}"},
      {"x[", "]"},
      {"x[:", "]"},
      {"range(", ")"},
      {"1|default(", ")"},
      {"1 is eq(", ")"},
      {"not ", ""},
      {"-", ""},
      {"1 if 0 else ", ""},
      {"(1 < ", ")"},
      {"1 + (", ")"},
      {"dict(a=", ")"},
      {"1 is eq [", "]"},
      {"(1 or (", ") + 1)"}};
  for (auto &[open, close] : around)
    for (int depth = 40; depth <= 205; depth += 5)
      all.push_back("{{ " + repeated(open, depth) + "1" +
                    repeated(close, depth) + " }}");
  // Blocks around the deepest of these.
  std::string inner =
      "{{ " + repeated("1 is eq(", 65) + "1" + repeated(")", 65) + " }}";
  for (auto &[open, close] : std::vector<std::pair<std::string, std::string>>{
           {"{% if 1 %}", "{% endif %}"},
           {"{% for i in [1] %}", "{% endfor %}"},
           {"{% for i in [] %}{% else %}", "{% endfor %}"},
           {"{% set x %}", "{% endset %}"},
           {"{% generation %}", "{% endgeneration %}"},
           {"{% macro m() %}", "{% endmacro %}"}})
    for (int depth = 47; depth <= 52; ++depth)
      all.push_back(repeated(open, depth) + inner + repeated(close, depth));
  // Macros that call themselves, each in another way.
  for (const char *body : {"{{ f() }}",
                           "{% if 1 %}{{ f() }}{% endif %}",
                           "{% if f() %}{% endif %}",
                           "{% for i in [1] %}{{ f() }}{% endfor %}",
                           "{% for i in f() %}{% endfor %}",
                           "{% set x = f() %}",
                           "{% for i in [1] if f() %}{% endfor %}",
                           "{% set x %}{{ f() }}{% endset %}",
                           "{% set x | default(f()) %}{% endset %}",
                           "{% generation %}{{ f() }}{% endgeneration %}",
                           "{{ f(f()) }}",
                           "{{ 1|default(f()) }}",
                           "{{ 1 is eq(f()) }}",
                           "{{ (f(),) }}",
                           "{{ {'a': f()} }}",
                           "{{ 'a'[f():] }}",
                           "{{ 'a'[f()] }}",
                           "{{ 1 < f() }}",
                           "{{ 1 + f() }}",
                           "{{ f() if 1 }}",
                           "{{ -f() }}",
                           "{{ not f() }}",
                           "{{ f().a }}",
                           "{{ namespace(a=f()) }}"})
    all.push_back("{% macro f() %}" + std::string(body) +
                  "{% endmacro %}{{ f() }}");
  all.push_back("{% macro f(x=f()) %}{% endmacro %}{{ f() }}");
  all.push_back("{% macro f() %}{{ 'a'|map(" + repeated("'map',", 250) +
                "'upper')|list }}{{ f() }}{% endmacro %}{{ f() }}");
  // Deep values, handled where the evaluator is deep itself.
  for (auto &[open, close] : std::vector<std::pair<std::string, std::string>>{
           {"[", "]"}, {"{'a': ", "}"}, {"(", ",)"}})
    for (const char *use :
         {"n.l == m.l", "n.l < m.l", "n.l in [m.l]", "n.l", "n.l|string",
          "n.l|tojson(indent=1)|length", "[n.l]|tojson", "[[n.l]]",
          "namespace(a=n.l, b=[m])", "n.l is sameas m.l", "[n.l]|join"})
      all.push_back("{% set n = namespace(l=1) %}{% set m = namespace(l=1) %}"
                    "{% for i in range(199) %}{% set n.l = " +
                    open + "n.l" + close + " %}{% set m.l = " + open + "m.l" +
                    close +
                    " %}{% endfor %}{% macro f(i) %}{% if i %}{{ f(i - 1) }}"
                    "{% else %}{{ " +
                    use + " }}{% endif %}{% endmacro %}{{ f(80) }}");
  return all;
}

// What cria.h says a thread needs is enough, whatever the template: each of
// these ends, with a text or an error.
TEST(Chat, NeedsNoMoreStackThanItSays) {
  std::string nested = "{\"x\": " + repeated("[", 62) + repeated("]", 62) +
                       ", \"y\": " + repeated("{\"a\":", 62) + "1" +
                       repeated("}", 62) + "}";
  runOnStack(CRIA_STACK_BYTES * stackFactor, [&] {
    for (const std::string &source : deepest()) {
      Status status = render(source, nested).status();
      EXPECT_EQ(status.message().find("bytes of stack"), std::string::npos)
          << status.message();
    }
    EXPECT_EQ(text(render("{{ x|string|length }} {{ y == y }}", nested)),
              "124 True");
  });
}

TEST(Chat, SaysWhatStackItNeeds) {
  Result<Template> parsed = Template::parse("{{ 1 }}", "t.jinja");
  ASSERT_TRUE(parsed.ok());
  runOnStack((128 << 10) * stackFactor, [&] {
    EXPECT_THAT(
        Template::parse("{{ 1 }}", "t.jinja").status(),
        fails(CRIA_RESOURCE_EXHAUSTED, "bytes of stack left, expected"));
    EXPECT_THAT(
        parsed->render("{}").status(),
        fails(CRIA_RESOURCE_EXHAUSTED, "bytes of stack left, expected"));
  });
}
