/// Chat templates: a template that parses renders a conversation or fails,
/// within its limits. The variables are a conversation, or the input after a
/// NUL. A character that only the conversation has never counts as the
/// template's.
#include "runtime/text/chat/Prompt.h"
#include "test/fuzz/Fuzz.h"

using namespace cria;

static const char *const conversation =
    R"({"messages": [{"role": "system", "content": " s\u4e2d\n"},
        {"role": "user", "content": "\u4e2d\u00e9 <think>"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}],
        "tools": [{"a": [1, 2.5, true], "\u4e2d": "a\u4e2d"}],
        "add_generation_prompt": true})";

/// The language of templates, every builtin of it, and texts that grow.
static const fuzz::Language &jinja() {
  static const fuzz::Language language = {
      {{"(", ")"},
       {"[", "]"},
       {"{'a':", "}"},
       {"x[", "]"},
       {"1 < (", ") < 3"},
       {"1 is eq(", ")"},
       {"x|default(", ")"},
       {"dict(a=", ")"},
       {"not ", ""},
       {"-", ""},
       {"1 if x else ", ""},
       {"{% if x %}", "{% endif %}"},
       {"{% for i in y %}", "{% endfor %}"},
       {"{% set x %}", "{% endset %}"},
       {"{% macro f(x) %}", "{% endmacro %}"},
       {"{% generation %}", "{% endgeneration %}"}},
      {{"part",
        {"t", "{{ @e@ }}", "{% set @name@ = @e@ %}", "{% set n.@name@ = @e@ %}",
         "{% if @e@ %}@part@{% elif @e@ %}@part@{% else %}@part@{% endif %}",
         "{% for @name@ in @e@ %}@part@{% else %}@part@{% endfor %}",
         "{% for i, j in @e@ if @e@ %}@part@{% continue %}{% endfor %}",
         "{% for i in range(@number@) %}@part@{% endfor %}",
         "{% set n = namespace(x=@e@, y=@e@) %}@part@",
         "{% set @name@ %}@part@{% endset %}",
         "{% macro f(x, y=@e@) %}@part@{% endmacro %}{{ f(@e@) }}",
         "{% set x = x ~ x %}", "{% set n.x = n.x ~ n.x %}",
         "{% set n.x = [n.x, n.x] %}", "{% set n.x = {'a': n.x} %}",
         "@part@@part@"}},
       {"e",
        {"x", "@atom@", "(@e@)", "@e@ @operator@ @e@", "@e@.@method@",
         "@e@|@filter@", "@e@ is @test@", "@e@[@e@]", "@e@[@e@:@e@:@e@]",
         "[@list@]", "(@list@)", "{@text@: @e@, @text@: @e@}",
         "@e@ if @e@ else @e@", "not @e@", "-@e@", "f(@e@, y=@e@)"}},
       {"list", {"@e@", "@e@, @list@", ""}},
       {"atom",
        {"1", "@name@", "@text@", "@number@", "true", "none", "messages",
         "tools", "range", "range(@number@)|list", "range(@e@)",
         "namespace(x=@e@)", "dict(@e@, a=@e@)", "loop", "loop.@loop@",
         "n.@name@", "@text@ * @number@", "strftime_now(@text@)"}},
       {"name", {"x", "y", "n", "f", "i"}},
       {"number",
        {"0", "1", "2", "3", "7", "-1", "1.5", "1e308", "99", "2000", "100000",
         "9223372036854775807", "18446744073709551615"}},
       {"text",
        {"'a'", "'ab'", "''", "'\\xe9'", "'\\U0001f600'", "' a b '", "'%Y'"}},
       {"operator",
        {"+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">",
         ">=", "in", "not in", "and", "or", "== x ==", "< x <"}},
       {"loop",
        {"index", "revindex0", "first", "last", "length", "previtem",
         "nextitem"}},
       {"method",
        {"x",
         "strip()",
         "strip(@e@)",
         "lstrip(@e@)",
         "rstrip(@e@)",
         "upper()",
         "lower()",
         "capitalize()",
         "title()",
         "replace(@e@, @e@)",
         "replace(@e@, @e@, @e@)",
         "split()",
         "split(@e@)",
         "split(@e@, @e@)",
         "rsplit(@e@)",
         "rsplit(@e@, @e@)",
         "splitlines()",
         "startswith(@e@)",
         "endswith(@e@)",
         "find(@e@)",
         "rfind(@e@)",
         "count(@e@)",
         "join(@e@)",
         "isdigit()",
         "isalpha()",
         "isspace()",
         "items()",
         "keys()",
         "values()",
         "get(@e@, @e@)",
         "@name@"}},
       {"filter",
        {"trim",
         "upper",
         "lower",
         "capitalize",
         "title",
         "replace(@e@, @e@)",
         "length",
         "default(@e@, true)",
         "tojson",
         "tojson(indent=@e@)",
         "tojson(separators=(@e@, @e@))",
         "tojson(sort_keys=true)",
         "tojson(ensure_ascii=true)",
         "join(@e@)",
         "join(@e@, attribute=@e@)",
         "list",
         "first",
         "last",
         "reverse",
         "map('@filter@', @e@)",
         "map('map', 'map', '@filter@')",
         "map(attribute=@e@)",
         "select",
         "select('@test@', @e@)",
         "reject('@test@', @e@)",
         "selectattr(@e@, '@test@')",
         "rejectattr(@e@)",
         "string",
         "int",
         "int(@e@)",
         "items"}},
       {"test",
        {"defined", "undefined", "none", "string", "mapping", "sequence",
         "iterable", "number", "callable", "true", "eq(@e@)", "ne(@e@)",
         "lt(@e@)", "ge(@e@)", "sameas(@e@)", "in(@e@)", "even", "odd",
         "divisibleby(@e@)"}}},
      {"part", "e", "atom"}};
  return language;
}

static std::pair<std::string_view, std::string_view>
cut(std::string_view input) {
  size_t nul = std::min(input.find('\0'), input.size());
  return {input.substr(0, nul), input.substr(std::min(nul + 1, input.size()))};
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  auto [source, variables] = cut(fuzz::textOf(data, size));
  if (variables.empty() || seed % 2)
    return fuzz::mutate(data, size, limit, seed / 2, jinja());
  size_t begin = source.size() + 1;
  return begin + fuzz::mutate(data + begin, size - begin, limit - begin,
                              seed / 2, fuzz::json());
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto [source, variables] = cut(fuzz::textOf(data, size));
  auto form = chat::Template::parse(source, "t.jinja");
  if (!form.ok())
    return 0;
  if (!variables.empty()) {
    auto text = form->render(variables);
    fuzz::require(text.ok() || !text.status().message().empty(), "says why");
    return 0;
  }
  auto text = chat::renderTraced(*form, conversation);
  fuzz::require(text.ok() || !text.status().message().empty(), "says why");
  // The template can spell the character by itself, or by an escape.
  static constexpr std::string_view given = "\xE4\xB8\xAD";
  if (!text.ok() || source.find(given) != source.npos ||
      source.find('\\') != source.npos)
    return 0;
  chat::TextView view = *text;
  for (size_t at = view.bytes.find(given); at != view.bytes.npos;
       at = view.bytes.find(given, at + given.size()))
    for (size_t i = at; i < at + given.size(); ++i)
      fuzz::require(view.origin(i) == Origin::Given, "a given character");
  return 0;
}
