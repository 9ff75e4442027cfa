#include "runtime/text/grammar/Grammar.h"
#include "runtime/text/grammar/Gbnf.h"
#include "runtime/text/grammar/Regex.h"
#include "runtime/text/grammar/schema/Numbers.h"
#include "test/runtime/Allocations.h"
#include "test/runtime/text/GrammarTokens.h"

#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

using namespace cria;
using namespace cria::grammar;
using namespace cria::test;
using testing::HasSubstr;

namespace {

/// A tokenizer whose id I is the byte I below 128; then "<0xC3>" and "<0xA9>",
/// "ab", "é" and the special token "<end>".
std::shared_ptr<const TokenTrie> tokens() {
  static const auto made = [] {
    std::vector<std::string> spelled;
    for (int byte = 0; byte < 128; ++byte)
      spelled.emplace_back(1, static_cast<char>(byte));
    for (const char *token : {"<0xC3>", "<0xA9>", "ab", "é", "<end>"})
      spelled.push_back(token);
    auto tokens = grammarTokens(spelled);
    EXPECT_TRUE(tokens.ok()) << tokens.status().message();
    return *tokens;
  }();
  return made;
}
constexpr int32_t highByte = 128, lowByte = 129, ab = 130, eAcute = 131,
                  end = 132;

std::string errorOf(Notation notation, const std::string &source) {
  auto made = Grammar::create(tokens(), notation, source, {end});
  return made.status().message();
}

Matcher matcherOf(Notation notation, const std::string &source) {
  auto made = Grammar::create(tokens(), notation, source, {end});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *Matcher::create(*made);
}

/// The ids that may come next.
std::vector<int32_t> next(Matcher &matcher) {
  std::vector<uint32_t> words(5);
  EXPECT_TRUE(matcher.mask(words.data(), words.size()).ok());
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < 160; ++id)
    if (words[id / 32] >> id % 32 & 1)
      ids.push_back(id);
  return ids;
}

Network networkOf(const std::string &regex) {
  Result<Expression> parsed = parseRegex(regex, Match::Whole);
  EXPECT_TRUE(parsed.ok());
  return *Network::build({{"root", *parsed}});
}

std::vector<uint32_t> maskOf(Automaton &automaton, StateId state) {
  std::vector<uint32_t> words(5);
  EXPECT_TRUE(
      automaton.mask(state, *tokens(), words.data(), words.size()).ok());
  return words;
}

bool takes(Notation notation, const std::string &source,
           const std::string &text) {
  Matcher matcher = matcherOf(notation, source);
  for (char c : text)
    if (!matcher.accept(c).ok())
      return false;
  return matcher.isComplete();
}

} // namespace

TEST(Grammar, MasksHaveTheTokensThatGoOn) {
  Matcher matcher = matcherOf(Notation::Regex, "(ab|é)c?");
  EXPECT_EQ(next(matcher), (std::vector<int32_t>{'a', highByte, ab, eAcute}));
  ASSERT_TRUE(matcher.accept('a').ok());
  EXPECT_EQ(next(matcher), std::vector<int32_t>{'b'});
}

TEST(Grammar, ForcedTextIsSpelledByTheLongestTokens) {
  using Ids = std::vector<int32_t>;
  Matcher matcher = matcherOf(Notation::Regex, "x(abcé|[yz]abab)d?");
  EXPECT_EQ(matcher.forced(9), Ids{'x'});
  EXPECT_EQ(matcher.forced(0), Ids());
  ASSERT_TRUE(matcher.accept('x').ok());
  EXPECT_EQ(matcher.forced(9), Ids()); // a, y or z
  ASSERT_TRUE(matcher.accept('a').ok());
  EXPECT_EQ(matcher.forced(9), (Ids{'b', 'c', eAcute}));
  EXPECT_EQ(matcher.forced(2), (Ids{'b', 'c'}));
  for (int32_t id : {int32_t{'b'}, int32_t{'c'}, eAcute})
    ASSERT_TRUE(matcher.accept(id).ok());
  EXPECT_EQ(matcher.forced(9), Ids()); // the text may end
  ASSERT_TRUE(matcher.accept(end).ok());
  EXPECT_EQ(matcher.forced(9), Ids());
  EXPECT_EQ(matcherOf(Notation::Regex, "abab(ab)*").forced(9), (Ids{ab, ab}));
  // No token begins with the last bytes.
  EXPECT_EQ(matcherOf(Notation::Regex, "a£").forced(9), Ids{'a'});
  // After the # comes more than a token may take.
  EXPECT_EQ(matcherOf(Notation::Regex, "no#(a?b?){9000}").forced(9),
            (Ids{'n', 'o'}));
  EXPECT_EQ(matcherOf(Notation::Regex, "x{1000}").forced(9999).size(),
            TokenTrie::mostBytes);
}

TEST(Grammar, ACharacterMayComeByteByByte) {
  Matcher matcher = matcherOf(Notation::Regex, "é");
  ASSERT_TRUE(matcher.accept(highByte).ok());
  EXPECT_FALSE(matcher.isComplete());
  EXPECT_EQ(next(matcher), std::vector<int32_t>{lowByte});
  ASSERT_TRUE(matcher.accept(lowByte).ok());
  EXPECT_TRUE(matcher.isFinished());
}

TEST(Grammar, EndIdsComeWhereTheTextIsComplete) {
  Matcher matcher = matcherOf(Notation::Regex, "ab*");
  EXPECT_FALSE(matcher.accept(end).ok());
  ASSERT_TRUE(matcher.accept('a').ok());
  EXPECT_EQ(next(matcher), (std::vector<int32_t>{'b', end}));
  EXPECT_FALSE(matcher.isFinished());
  ASSERT_TRUE(matcher.accept(end).ok());
  EXPECT_TRUE(matcher.isFinished());
  std::vector<uint32_t> words(5);
  Status status = matcher.mask(words.data(), words.size());
  EXPECT_EQ(status.code(), CRIA_FAILED_PRECONDITION);
  EXPECT_EQ(status.message(), "the text has ended");
}

TEST(Grammar, MasksAndAcceptAgree) {
  Matcher matcher = matcherOf(Notation::JsonSchema, R"({"type": "object"})");
  for (char c : std::string(R"({"ab": [1, {"x": "\u)")) {
    std::vector<int32_t> accepted;
    for (int32_t id = 0; id < 140; ++id)
      if (Matcher copy = matcher; copy.accept(id).ok())
        accepted.push_back(id);
    EXPECT_EQ(next(matcher), accepted) << c;
    ASSERT_TRUE(matcher.accept(c).ok()) << c;
  }
}

TEST(Grammar, AnIdThatMayNotComeChangesNothing) {
  Matcher matcher = matcherOf(Notation::Regex, "abc");
  ASSERT_TRUE(matcher.accept('a').ok());
  EXPECT_EQ(matcher.accept('c').message(),
            "id 99 may not come next in the grammar");
  EXPECT_FALSE(matcher.accept(ab).ok());
  EXPECT_FALSE(matcher.accept(-1).ok());
  EXPECT_FALSE(matcher.accept(99999).ok());
  EXPECT_TRUE(matcher.accept('b').ok());
}

TEST(Grammar, AVocabularyThatCannotGoOnIsSaid) {
  Matcher matcher = matcherOf(Notation::Regex, "中");
  std::vector<uint32_t> words(5);
  EXPECT_THAT(matcher.mask(words.data(), words.size()).message(),
              HasSubstr("no token of the vocabulary"));
}

/// A model may have fewer ids than its tokenizer.
TEST(Grammar, IdsBeyondTheWordsAreLeftOut) {
  Matcher matcher = matcherOf(Notation::Regex, "(ab|é)?");
  std::vector<uint32_t> words = {0, 0, 0, 0, 7};
  ASSERT_TRUE(matcher.mask(words.data(), 4).ok());
  EXPECT_EQ(words, (std::vector<uint32_t>{0, 0, 0, 1u << ('a' - 96), 7}));
  ASSERT_TRUE(matcher.accept(eAcute).ok());
  EXPECT_EQ(matcher.mask(words.data(), 4).message(),
            "the text is complete, and no id ends it");
  // Many ids: the mask is kept as words.
  Matcher any = matcherOf(Notation::JsonSchema, R"({"type": "string"})");
  ASSERT_TRUE(any.accept('"').ok());
  std::vector<uint32_t> all(5), some = {0, 0, 0, 9};
  ASSERT_TRUE(any.mask(all.data(), 5).ok());
  ASSERT_TRUE(any.mask(some.data(), 3).ok());
  EXPECT_EQ(some, (std::vector<uint32_t>{all[0], all[1], all[2], 9}));
}

TEST(Grammar, AmbiguousGrammarsHaveFewStates) {
  std::string source = R"(root ::= "a" root "b" | "a" root "c" | "")";
  EXPECT_TRUE(takes(Notation::Gbnf, source,
                    std::string(60, 'a') + std::string(60, 'c')));
  EXPECT_FALSE(takes(Notation::Gbnf, source,
                     std::string(60, 'a') + std::string(59, 'c')));
  EXPECT_TRUE(
      takes(Notation::Regex, "((a*)*)*b", std::string(1000, 'a') + "b"));
}

TEST(Grammar, EmptyRulesAreSteppedOver) {
  std::string source = "root ::= x x \"c\" x\nx ::= y | \"a\"\ny ::= \"b\"?\n";
  for (const char *text : {"c", "ac", "bac", "abcb", "cb"})
    EXPECT_TRUE(takes(Notation::Gbnf, source, text)) << text;
  for (const char *text : {"", "a", "aaac", "cbb"})
    EXPECT_FALSE(takes(Notation::Gbnf, source, text)) << text;
}

TEST(Grammar, GbnfAsInLlamaCpp) {
  std::string source =
      "# sums\n"
      "root ::= term (\n  [+*-] term\n)* |\n  \"=\"{2,3}\n"
      "\n"
      "term ::= [0-9]+ # a number\n"
      "  | \"(\" root \")\" | \"\\x41\\u00e9\\n\" | [^\\x00-\\x7F]\n"
      "unused ::= unused-too \nunused-too ::= \"x\"";
  for (const char *text : {"1", "12+(3*4)-5", "==", "==="})
    EXPECT_TRUE(takes(Notation::Gbnf, source, text)) << text;
  for (const char *text : {"", "=", "====", "1+", "(1"})
    EXPECT_FALSE(takes(Notation::Gbnf, source, text)) << text;
}

TEST(Grammar, GbnfErrorsNameTheLine) {
  auto error = [](const std::string &source) {
    return errorOf(Notation::Gbnf, source);
  };
  EXPECT_EQ(error("root ::= \"a\"\nx ::= \"b"),
            "line 2: the literal that begins here has no '\"' at its end");
  EXPECT_EQ(error("x ::= \"a\""), "line 1: rule 'root' is not defined");
  EXPECT_EQ(error("root ::= \"a\"\n  | y\n\n"),
            "line 2: rule 'y' is not defined");
  EXPECT_EQ(error("root ::= \"a\"\nroot ::= \"b\""),
            "line 2: rule 'root' is defined twice");
  EXPECT_EQ(error("root = \"a\""),
            "line 1: expected '::=' after 'root', got '='");
  EXPECT_EQ(error("root ::= <think>"),
            "line 1: a token in '<>' is not supported: write its text");
  EXPECT_EQ(error("root ::= \"\\q\""),
            "line 1: the escape '\\q' is not supported");
  EXPECT_EQ(error("root ::= (\"a\""), "line 1: expected ')', got the end");
  EXPECT_EQ(error("root ::= (\n\"a\" é)"), "line 2: expected ')', got 'é'");
  EXPECT_EQ(error("root ::= \"a\"{2,x}"),
            "line 1: expected a number in '{}', got 'x'");
  EXPECT_EQ(error("root ::= \"a\"{2 3}"), "line 1: expected '}', got '3'");
  EXPECT_EQ(error("root ::= [\\x4g]"),
            "line 1: expected 2 hexadecimal digits, got 'g'");
  EXPECT_EQ(error("root ::= [a\nx ::= \"b\""),
            "line 1: the set that begins here has no ']' at its end");
  EXPECT_EQ(
      error("root ::= [b-a]"),
      "line 1: expected a range from a lower to a higher character, got 'b-a'");
  EXPECT_EQ(error("root ::= \"a\"{3,2}"),
            "line 1: the numbers of the repetition '{3,2}' are out of order");
  EXPECT_EQ(error("root ::= \"a\" )"),
            "line 1: expected the end of the line, got ')'");
  EXPECT_EQ(error("root ::= \"\\ud800\""),
            "line 1: the escape '\\ud800' is no character");
  EXPECT_EQ(error("root ::= x \"a\" | \"c\"\nx ::= \"b\"? root"),
            "rule 'root' may begin with itself, by way of 'x': left recursion "
            "is not supported");
  EXPECT_EQ(error("root ::= \"a\" root"), "no text matches the grammar");
  EXPECT_EQ(error("root ::= \xFF"), "not UTF-8 at byte 9");
}

TEST(Grammar, RegularExpressions) {
  auto takesAll = [](const std::string &regex,
                     const std::vector<std::string> &good,
                     const std::vector<std::string> &bad) {
    for (const std::string &text : good)
      EXPECT_TRUE(takes(Notation::Regex, regex, text)) << regex << " " << text;
    for (const std::string &text : bad)
      EXPECT_FALSE(takes(Notation::Regex, regex, text)) << regex << " " << text;
  };
  takesAll("^a|b$", {"a", "b"}, {"", "ab"});
  takesAll("a{2}b{0,1}?c{1,}+?", {}, {});
  takesAll("(?:x|(?<n>y)|(?P<m>z)){2}", {"xy", "zz"}, {"x", "xyz"});
  takesAll(R"([\w.-]+@\d\S)", {"a.b-c@1x"}, {"@1x", "a@1 "});
  takesAll(R"(\x41\u0042\u{43}\t\.\/[\]\\^-])",
           {"ABC\t./]", "ABC\t./-", "ABC\t./^"}, {"ABC\t./a"});
  takesAll("a{,2}|{}", {"a{,2}", "{}"}, {"aa"});
  takesAll("[^a-c]", {"d"}, {"a", "b", ""});
  takesAll(".", {"a", "\r"}, {"\n"});
}

TEST(Grammar, RegexErrorsNameThePlace) {
  auto error = [](const std::string &source) {
    return errorOf(Notation::Regex, source);
  };
  EXPECT_EQ(error("ab(?=c)"),
            "at character 4: looking around is not supported");
  EXPECT_EQ(error(R"(a\b)"),
            R"(at character 2: the escape '\b' is not supported)");
  EXPECT_EQ(error(R"((a)\1)"),
            R"(at character 4: the escape '\1' is not supported)");
  EXPECT_EQ(error(R"(\p{L})"),
            R"(at character 1: the escape '\p' is not supported)");
  EXPECT_EQ(error("(?i)a"), "at character 2: '(?i' is not supported");
  EXPECT_EQ(error("a++"),
            "at character 2: a possessive repetition is not supported");
  EXPECT_EQ(error("(^a)"), "at character 1: '^' here is not supported");
  EXPECT_EQ(error("a$b"),
            "at character 2: '$' before the end is not supported");
  EXPECT_EQ(error("[[:digit:]]"),
            "at character 1: a POSIX class is not supported");
  EXPECT_EQ(error("[]"), "at character 1: an empty set is not supported");
  EXPECT_EQ(error("*a"), "at character 0: nothing to repeat before '*'");
  EXPECT_EQ(error("a**"), "at character 2: a second repetition of one part: "
                          "put the first in parentheses");
  EXPECT_EQ(
      error("a{3,2}"),
      "at character 6: the numbers of the repetition '{3,2}' are out of order");
  EXPECT_EQ(error("(a"), "at character 2: expected ')', got the end");
  EXPECT_EQ(
      error("(?<n"),
      "at character 4: expected '>' after the name of a group, got the end");
  EXPECT_EQ(error("[b-a]"), "at character 4: expected a range from a lower to "
                            "a higher character, got 'b-a'");
  EXPECT_EQ(error(R"(\x4g)"),
            "at character 3: expected 2 hexadecimal digits, got 'g'");
  EXPECT_EQ(error(R"(\ud800)"),
            R"(at character 6: the escape '\ud800' is no character)");
  EXPECT_EQ(error("a)"), "at character 1: ')' without '('");
  EXPECT_EQ(error("[a"), "at character 2: expected ']', got the end");
  EXPECT_EQ(error("\\"), "at character 1: a backslash at the end");
  EXPECT_EQ(error(R"(\u{41)"), "at character 5: expected '}', got the end");
}

TEST(Grammar, HostileGrammarsAreRefused) {
  auto code = [](Notation notation, const std::string &source) {
    return Grammar::create(tokens(), notation, source, {}).status().code();
  };
  EXPECT_EQ(code(Notation::Regex, "(a{1000}){1000}"), CRIA_RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(Notation::Regex, "((((){9999}){9999}){9999}){9999}"), CRIA_OK);
  EXPECT_EQ(code(Notation::Regex, "((((a?){0,99}){0,99}){0,99}){0,99}"),
            CRIA_RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(Notation::Regex, std::string(1000, '(')),
            CRIA_RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(Notation::Regex, std::string(1 << 20, 'a')),
            CRIA_RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(Notation::Gbnf, "root ::= " + std::string(1000, '(')),
            CRIA_RESOURCE_EXHAUSTED);
  std::string names = "root ::=", list = "false", dots(60000, '.');
  for (int i = 0; i < 30000; ++i) {
    names += " r" + std::to_string(i);
    list += ", false";
  }
  EXPECT_EQ(code(Notation::Gbnf, names), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(code(Notation::JsonSchema, "{\"oneOf\": [" + list + "]}"),
            CRIA_RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(Notation::JsonSchema, "{\"pattern\": \"" + dots + "\"}"),
            CRIA_OK);
  std::string chain;
  for (int i = 0; i < 9000; ++i)
    chain += (i ? "r" + std::to_string(i) : "root") + " ::= r" +
             std::to_string(i + 1) + " | \"b\"\n";
  EXPECT_EQ(code(Notation::Gbnf, chain + "r9000 ::= \"a\""), CRIA_OK);
}

TEST(Grammar, HostileTextsAreRefused) {
  auto wide = Grammar::create(tokens(), Notation::Regex, "x(a?b?){9000}", {});
  ASSERT_TRUE(wide.ok());
  std::vector<uint32_t> words(5);
  Matcher matcher = *Matcher::create(*wide);
  EXPECT_EQ(matcher.accept('x').message(),
            "the grammar may be read in more than 16384 ways at once");
  // Exponentially many states, but few for a token.
  Matcher many = matcherOf(Notation::Regex, "(a|b)*a(a|b){30}");
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(many.mask(words.data(), words.size()).ok());
    ASSERT_TRUE(many.accept(i * i % 7 % 2 ? 'a' : 'b').ok());
  }
}

TEST(Grammar, EveryAllocationMayFail) {
  if (!allocationsCanFail)
    GTEST_SKIP() << "ThreadSanitizer allocates";
  auto make = [] {
    return Grammar::create(tokens(), Notation::JsonSchema,
                           R"({"items": {"enum": ["a", "b"]}, "maxItems": 2})",
                           {end});
  };
  const std::string text = R"(["a", "b"])";
  auto masks = [&](Matcher matcher) {
    std::vector<std::vector<uint32_t>> all;
    for (char c : text) {
      EXPECT_TRUE(matcher.mask(all.emplace_back(5).data(), 5).ok());
      EXPECT_TRUE(matcher.accept(c).ok());
    }
    EXPECT_TRUE(matcher.isFinished());
    return all;
  };
  const auto wanted = masks(*Matcher::create(*make()));
  int64_t failures = 0;
  for (int64_t nth = 1;; nth += 1 + nth / 16, ++failures) {
    std::shared_ptr<const Grammar> made;
    std::vector<Matcher> matcher;
    failAllocation(nth);
    try {
      made = *make();
      matcher.push_back(*Matcher::create(made));
      for (char c : text) {
        uint32_t bits[5];
        EXPECT_TRUE(matcher[0].mask(bits, 5).ok());
        EXPECT_TRUE(matcher[0].accept(c).ok());
      }
      failAllocation(0);
      break;
    } catch (const std::bad_alloc &) {
      failAllocation(0);
    }
    // What was half done when memory ended is done again.
    if (!matcher.empty()) {
      EXPECT_EQ(masks(*Matcher::create(made)), wanted);
    }
  }
  EXPECT_GT(failures, 50);
}

TEST(Grammar, DeepTextsAreTaken) {
  Matcher matcher = matcherOf(Notation::JsonSchema, "{}");
  for (char c : std::string(20000, '[') + std::string(20000, ']'))
    ASSERT_TRUE(matcher.accept(c).ok());
  EXPECT_TRUE(matcher.isFinished());
}

TEST(Grammar, IdleMatchersKeepTheirStates) {
  auto made =
      Grammar::create(tokens(), Notation::Regex, "(a|b)*a(a|b){24}c", {});
  ASSERT_TRUE(made.ok());
  std::vector<uint32_t> words(5);
  Matcher slow = *Matcher::create(*made), fast = slow;
  ASSERT_TRUE(slow.accept('a').ok());
  Matcher copy = slow;
  uint32_t random = 1;
  for (int i = 0; i < 150000; ++i) { // more than 48 MiB of states
    random = random * 1664525 + 1013904223;
    ASSERT_TRUE(fast.accept(random >> 31 ? 'a' : 'b').ok());
  }
  for (Matcher *idle : {&slow, &copy}) {
    for (int i = 0; i < 24; ++i)
      ASSERT_TRUE(idle->accept('b').ok());
    ASSERT_TRUE(idle->mask(words.data(), words.size()).ok());
    EXPECT_TRUE(idle->accept('c').ok());
    EXPECT_TRUE(idle->isFinished());
  }
}

TEST(Grammar, StatesThatAreHeldKeepLittle) {
  Network network = networkOf("(a|b)*a(a|b){24}c");
  Automaton automaton(network);
  std::vector<std::shared_ptr<const StateId>> held;
  std::vector<std::vector<uint32_t>> masks;
  uint32_t random = 1;
  for (int generation = 0; generation < 4; ++generation) {
    StateId state = *automaton.start();
    while (!automaton.isLarge()) {
      random = random * 1664525 + 1013904223;
      state = *automaton.step(state, random >> 31 ? "a" : "b");
    }
    held.push_back(automaton.hold(state));
    masks.push_back(maskOf(automaton, state));
    automaton.forget();
    EXPECT_LT(automaton.memory(), 64u << 10);
  }
  for (size_t i = 0; i < held.size(); ++i)
    EXPECT_EQ(maskOf(automaton, *held[i]), masks[i]);
}

TEST(Grammar, AnyAllocationMayFailWhileForgetting) {
  if (!allocationsCanFail)
    GTEST_SKIP() << "ThreadSanitizer allocates";
  Network network = networkOf("(ab?c|(é|a)*b){9}");
  Automaton automaton(network);
  std::vector<std::shared_ptr<const StateId>> held;
  std::vector<std::vector<uint32_t>> masks;
  StateId state = *automaton.start();
  for (const char *bytes : {"a", "ab", "c", "a", "\xC3", "\xA9", "b"}) {
    state = *automaton.step(state, bytes);
    held.push_back(automaton.hold(state));
    masks.push_back(maskOf(automaton, state));
  }
  int64_t failures = 0;
  for (bool forgot = false; !forgot;) {
    failAllocation(failures + 1);
    try {
      automaton.forget();
      forgot = true;
    } catch (const std::bad_alloc &) {
      ++failures;
    }
    failAllocation(0);
    for (size_t i = 0; i < held.size(); ++i)
      EXPECT_EQ(maskOf(automaton, *held[i]), masks[i]);
  }
  EXPECT_GT(failures, 20);
}

TEST(Grammar, TextsThatAreTooDeepAreRefused) {
  Matcher matcher = matcherOf(Notation::JsonSchema, "{}"), other = matcher;
  Status status;
  for (int depth = 0; depth < 500000 && status.ok(); ++depth)
    status = matcher.accept('[');
  uint32_t bits[5];
  for (const Status &each : {status, matcher.mask(bits, 5)}) {
    EXPECT_EQ(each.code(), CRIA_RESOURCE_EXHAUSTED);
    EXPECT_EQ(each.message(), "the text is nested too deeply");
  }
  EXPECT_TRUE(other.accept('[').ok());
}

TEST(Grammar, ThreadsShareOne) {
  auto made = Grammar::create(tokens(), Notation::JsonSchema, "{}", {end});
  ASSERT_TRUE(made.ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Matcher matcher = *Matcher::create(*made);
      std::vector<uint32_t> words(5);
      for (char c : std::string(R"({"a": [1, 2, {"b": "text"}]})")) {
        EXPECT_TRUE(matcher.mask(words.data(), words.size()).ok());
        EXPECT_TRUE(words[c / 32] >> c % 32 & 1);
        EXPECT_TRUE(matcher.accept(c).ok());
      }
      EXPECT_TRUE(matcher.isFinished());
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Grammar, ThreadsForgetTogether) {
  auto made =
      Grammar::create(tokens(), Notation::Regex, "(a|b)*a(a|b){24}c", {});
  ASSERT_TRUE(made.ok());
  Matcher first = *Matcher::create(*made);
  ASSERT_TRUE(first.accept('a').ok());
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      Matcher idle = first, matcher = first;
      uint32_t random = thread;
      for (int i = 0; i < 40000; ++i) {
        random = random * 1664525 + 1013904223;
        EXPECT_TRUE(matcher.accept(random >> 31 ? 'a' : 'b').ok());
        if (i % 1000 == 0)
          idle = matcher;
      }
      for (int i = 39001; i < 40000; ++i)
        EXPECT_TRUE(idle.accept('b').ok());
      EXPECT_FALSE(idle.accept('c').ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int i = 0; i < 24; ++i)
    ASSERT_TRUE(first.accept('b').ok());
  EXPECT_TRUE(first.accept('c').ok());
}

TEST(Grammar, DecimalsOfJson) {
  auto text = [](const char *spelled) {
    auto decimal = Decimal::parse(spelled);
    return decimal
               ? (decimal->negative ? "-" : "") +
                     std::to_string(decimal->whole) + "." + decimal->fraction
               : "none";
  };
  EXPECT_EQ(text("0"), "0.");
  EXPECT_EQ(text("-0.0"), "0.");
  EXPECT_EQ(text("-1.50"), "-1.5");
  EXPECT_EQ(text("1.5e3"), "1500.");
  EXPECT_EQ(text("125e-4"), "0.0125");
  EXPECT_EQ(text("-9223372036854775808"), "-9223372036854775808.");
  EXPECT_EQ(text("1e18"), "1000000000000000000.");
  EXPECT_EQ(text("1e19"), "none");
  EXPECT_EQ(text("1e-41"), "none");
}
