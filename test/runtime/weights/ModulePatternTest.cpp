#include "runtime/weights/lora/ModulePattern.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

using namespace cria;
using namespace cria::test;

namespace {

Status statusOf(const std::string &pattern) {
  uint64_t budget = 1 << 20;
  return matchesModule(pattern, "a.b", budget).status();
}

/// Whether `pattern` matches `module`.
bool matches(const char *pattern, const std::string &module) {
  uint64_t budget = 1 << 20;
  auto matched = matchesModule(pattern, module, budget);
  EXPECT_TRUE(matched.ok()) << pattern << matched.status().message();
  return matched.ok() && *matched;
}

} // namespace

// Expectations are what Python's re.match(rf"(.*\.)?({pattern})$", module)
// says.
TEST(ModulePatternTest, MatchesWhatFollowsADot) {
  std::string module = "model.layers.12.self_attn.q_proj";
  for (const char *pattern : {"q_proj",
                              "self_attn.q_proj",
                              R"(layers\.12\..*)",
                              R"(.*\.q_proj)",
                              R"(layers\.\d+\.self_attn\.(q|k)_proj)",
                              "^model.*",
                              "q_proj$",
                              R"(layers\.(?:1|12)\.self_attn\.[qkv]_proj)",
                              "[^.]+",
                              "(?:q_)?proj|x",
                              "^a|q_proj",
                              "q_{1}proj",
                              "q_{0,2}proj",
                              "q.{2,}oj",
                              "q_proj{1}",
                              "q.{,2}proj",
                              R"(layers\.[0-9]{2}\.[a-z_]+\.q_proj)",
                              ".*?",
                              "(?:[a-z_]*)*",
                              "model|[q]_pro[j-k]",
                              R"(q\_proj)"})
    EXPECT_TRUE(matches(pattern, module)) << pattern;
  for (const char *pattern :
       {"proj", "q_pro", "^q_proj", "", "k_proj", R"(layers\.\d\..*)",
        R"(layers\.1\..*)", "model", "q_{2}proj", "q_proj{2}", "[^q]_proj",
        "q_proj^", "^model|layers"})
    EXPECT_FALSE(matches(pattern, module)) << pattern;
  EXPECT_TRUE(matches("a{,b", "a{,b"));
  EXPECT_TRUE(matches("a.c", "a\xc3\xa9"
                             "c"));
  EXPECT_TRUE(matches("a[^b]c", "a\xc3\xa9"
                                "c"));
  EXPECT_FALSE(matches("a..c", "a\xc3\xa9"
                               "c"));
}

TEST(ModulePatternTest, RefusesOtherSyntaxByName) {
  for (auto [pattern, what] :
       std::vector<std::pair<const char *, const char *>>{
           {"(?=a)", "'(?='"},
           {R"(\w+)", R"('\w')"},
           {R"((a)\1)", R"('\1')"},
           {R"(a\b)", R"('\b')"},
           {"a*+", "possessive"},
           {R"([\d-z])", "range of escapes"},
           {"[\xc3\xa9]", "not ASCII"}})
    EXPECT_THAT(statusOf(pattern), fails(CRIA_UNIMPLEMENTED, what));
  std::string deep(100, '(');
  EXPECT_THAT(statusOf(deep),
              fails(CRIA_UNIMPLEMENTED, "nested deeper than 64"));
  for (const char *pattern :
       {"(", ")", "a)", "[", "[]", "*", "a**", "a|*", "a{2,1}", "\\", "[b-a]"})
    EXPECT_EQ(statusOf(pattern).code(), CRIA_INVALID_ARGUMENT) << pattern;
}

// Whatever is repeated, or nested, costs no memory, and no more time than the
// budget pays.
TEST(ModulePatternTest, BoundsTheWork) {
  EXPECT_TRUE(matches("(?:(?:){4095}){2000000000}b", "a.b"));
  EXPECT_FALSE(matches("(?:a{1000}){1000}", "a.b"));
  EXPECT_TRUE(matches("(?:(?:(?:[ab.]?){,9}){,9}){1000000}", "a.b"));
  std::string nested = "b";
  for (int i = 0; i < 60; ++i)
    nested = "(?:" + nested + ")*";
  EXPECT_THAT(statusOf(nested),
              fails(CRIA_INVALID_ARGUMENT, "takes too long to match"));
}
