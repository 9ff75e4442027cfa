/// Grammars: the first byte of an input chooses the notation. A grammar that is
/// read has masks for each of a few ids that the input draws: an id is in the
/// mask if and only if the matcher accepts it.
#include "runtime/text/grammar/Grammar.h"
#include "test/fuzz/Fuzz.h"
#include "test/runtime/text/GrammarTokens.h"

#include <cstdio>
#include <string>
#include <vector>

using namespace cria;

static const fuzz::Language &regex() {
  static const fuzz::Language language = {
      {{"(", ")"}, {"(?:", ")*"}, {"(", "){2,9}"}, {"[^", "]"}, {"(a|", ")+"}},
      {{"e", {"a", "@e@@e@", "@e@|@e@", "(@e@)", "@e@@count@", "@set@", "."}},
       {"count", {"*", "+", "?", "{2}", "{1,}", "{0,99}", "{1000}", "*?"}},
       {"set",
        {"[a-z]", "[^\"\\\\]", "\\d", "\\W", "é", "\\u{10FFFF}", "[é-日]"}}},
      {"e", "set"}};
  return language;
}

static const fuzz::Language &gbnf() {
  static const fuzz::Language language = {
      {{"(", ")"}, {"\nx ::= ", ""}, {"\"a\" | (", ")*"}},
      {{"rules", {"root ::= @e@\n", "root ::= @e@\nx ::= @e@\ny ::= @e@\n"}},
       {"e",
        {"\"a\"", "x", "y", "@e@ @e@", "@e@ | @e@", "(@e@)", "@e@@count@",
         "\"\"", "[^a]", "[é-日\\n]", ".", "\"a\" @e@", "@e@?"}},
       {"count", {"*", "+", "?", "{2}", "{1,}", "{,9}", "{0,999}"}}},
      {"rules", "e"}};
  return language;
}

static const fuzz::Language &schema() {
  static const fuzz::Language language = {
      {{"[", "]"},
       {"{\"items\":", "}"},
       {"{\"anyOf\":[", ",{\"type\":\"null\"}]}"},
       {"{\"properties\":{\"a\":", "}}"}},
      {{"s",
        {"{}", "true", "false", "{\"$ref\":\"@ref@\"}", "{\"type\":\"@type@\"}",
         "{\"@list@\":[@s@,@s@]}", "{\"items\":@s@,\"minItems\":@n@}",
         "{\"properties\":{\"a\":@s@,\"ab\":@s@},\"required\":[\"ab\"]}",
         "{\"additionalProperties\":@s@,\"properties\":{\"a\":@s@}}",
         "{\"@bound@\":@n@,\"@bound@\":@n@}", "{\"enum\":[@n@,\"a\",null,{}]}",
         "{\"const\":@n@}", "{\"pattern\":\"^[a-z\\\"]+é?$\"}",
         "{\"format\":\"date-time\"}",
         "{\"$defs\":{\"a\":@s@},\"allOf\":[@s@]}",
         "{\"minLength\":@n@,\"maxLength\":@n@}",
         "{\"oneOf\":[{\"const\":1},@s@,{\"type\":\"array\"}]}"}},
       {"ref", {"#", "#/$defs/a", "#/items", "#/anyOf/0"}},
       {"type", {"object", "array", "string", "number", "integer", "null"}},
       {"list", {"anyOf", "oneOf", "allOf", "prefixItems"}},
       {"bound",
        {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
         "maxItems"}},
       {"n", {"1", "0", "-2.5", "99", "1e3", "0.125", "100000", "1e-9"}}},
      {"s", "n"}};
  return language;
}

static grammar::Notation notationOf(uint8_t byte) {
  return static_cast<grammar::Notation>(byte % 3);
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  if (size == 0 || limit < 2)
    return size;
  using grammar::Notation;
  const fuzz::Language &language =
      notationOf(data[0]) == Notation::Regex  ? regex()
      : notationOf(data[0]) == Notation::Gbnf ? gbnf()
                                              : schema();
  return 1 + fuzz::mutate(data + 1, size - 1, limit - 1, seed, language);
}

/// A token for each byte and some longer ones; the last is special.
static std::shared_ptr<const grammar::TokenTrie> tokens() {
  std::vector<std::string> spelled;
  for (int byte = 0; byte < 256; ++byte) {
    char token[8];
    snprintf(token, sizeof(token), "<0x%02X>", byte);
    spelled.push_back(token);
  }
  for (const char *token : {"{\"", "\":", "aa", "ab", "é", "日本", "}]", "<e>"})
    spelled.push_back(token);
  auto tokens = test::grammarTokens(spelled);
  fuzz::require(tokens.ok(), "a tokenizer");
  return *tokens;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const auto vocabulary = tokens();
  const auto end = static_cast<int32_t>(vocabulary->idLimit() - 1);
  if (size == 0)
    return 0;
  auto made = grammar::Grammar::create(vocabulary, notationOf(data[0]),
                                       fuzz::textOf(data + 1, size - 1), {end});
  if (!made.ok()) {
    fuzz::require(!made.status().message().empty(), "says why");
    return 0;
  }
  auto matcher = grammar::Matcher::create(*made);
  uint32_t random = size;
  for (int step = 0; step < 8 && matcher.ok(); ++step) {
    std::vector<uint32_t> bits(static_cast<size_t>(end / 32 + 1));
    Status status = matcher->mask(bits.data(), bits.size());
    if (!status.ok())
      return fuzz::require(!status.message().empty(), "says why"), 0;
    std::vector<int32_t> ids;
    for (int32_t id = 0; id <= end; ++id) {
      grammar::Matcher copy = *matcher;
      bool isIn = bits[id / 32] >> id % 32 & 1;
      Status accepted = copy.accept(id);
      fuzz::require(accepted.ok() == isIn ||
                        accepted.code() == CRIA_RESOURCE_EXHAUSTED,
                    "the mask has what is accepted");
      if (accepted.ok() && id != end)
        ids.push_back(id);
    }
    if (ids.empty())
      return 0;
    random = random * 1664525 + 1013904223 + data[step % size];
    fuzz::require(matcher->accept(ids[random / 65536 % ids.size()]).ok(),
                  "an id of the mask");
  }
  return 0;
}
