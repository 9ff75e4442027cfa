#include "runtime/base/Json.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

using namespace cria;
using cria::test::fails;

static Status parse(const std::string &text, JsonLimits limits = {}) {
  return parseJson(text, "f.json", limits).status();
}

// Every way a text can end early, begin wrongly or go on too long.
TEST(Json, RejectsWhatIsNoJsonWithFileAndOffset) {
  EXPECT_THAT(parse(""), fails(CRIA_INVALID_ARGUMENT,
                               "f.json: at byte 0: empty, expected JSON"));
  EXPECT_THAT(parse("\xEF\xBB\xBF{}"),
              fails(CRIA_INVALID_ARGUMENT, "at byte 0: byte order mark"));
  EXPECT_THAT(parse("{\"a\":[1,2}"),
              fails(CRIA_INVALID_ARGUMENT, "at byte 10: syntax error"));
  EXPECT_THAT(parse("{} x"), fails(CRIA_INVALID_ARGUMENT, "at byte 4"));
  EXPECT_THAT(parse("\"\xff\""), fails(CRIA_INVALID_ARGUMENT, "at byte 2"));
  EXPECT_THAT(parse(std::string("{}\0{", 4)),
              fails(CRIA_INVALID_ARGUMENT, "at byte 2: NUL character"));
  std::string whole = "{\"key\": [1, \"two\", null]}";
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT(parse(whole.substr(0, size)),
                fails(CRIA_INVALID_ARGUMENT, "f.json: at byte "));
}

TEST(Json, RejectsDuplicateKeys) {
  EXPECT_THAT(parse("{\"a\": 1, \"b\": {}, \"a\": 1}"),
              fails(CRIA_INVALID_ARGUMENT, "duplicate key 'a'"));
  EXPECT_TRUE(parse("{\"a\": {\"a\": 1}}").ok());
}

// The least text for the most memory.
TEST(Json, BoundsTheMemoryOfValues) {
  JsonLimits limits;
  limits.memory = 1 << 20;
  auto objects = [](int count) {
    std::string text = "[0";
    for (int i = 0; i < count; ++i)
      text += ",{\"\":{}}";
    return text + "]";
  };
  EXPECT_THAT(parse(objects(5000), limits),
              fails(CRIA_INVALID_ARGUMENT, "takes more than 1 MiB of memory"));
  EXPECT_TRUE(parse(objects(2000), limits).ok());
  EXPECT_THAT(parse('"' + std::string(2 << 20, 'x') + '"', limits),
              fails(CRIA_INVALID_ARGUMENT, "takes more than 1 MiB of memory"));
}

TEST(Json, BoundsDepthSizeStringsAndNumberOfValues) {
  EXPECT_THAT(parse(std::string(100'000, '[')),
              fails(CRIA_INVALID_ARGUMENT, "nested deeper than 64"));
  std::string deepest = std::string(64, '[') + std::string(64, ']');
  EXPECT_TRUE(parse(deepest).ok());
  JsonLimits limits;
  limits.bytes = 10;
  EXPECT_THAT(
      parse("[1,2,3,4,5]", limits),
      fails(CRIA_INVALID_ARGUMENT, "has 11 bytes, expected at most 10"));
  limits = {};
  limits.string = 8;
  EXPECT_THAT(parse("[\"123456789\"]", limits),
              fails(CRIA_INVALID_ARGUMENT, "string of more than 8 bytes"));
  EXPECT_TRUE(parse("[\"1234\\\"78\"]", limits).ok());
  limits = {};
  limits.values = 3;
  EXPECT_THAT(parse("[1,2,3]", limits),
              fails(CRIA_INVALID_ARGUMENT, "more than 3 values"));
}

TEST(Json, RejectsNumbersBeyondDouble) {
  EXPECT_THAT(parse("1e999"), fails(CRIA_INVALID_ARGUMENT, "overflow"));
  EXPECT_THAT(parse("NaN"), fails(CRIA_INVALID_ARGUMENT, "at byte 1"));
  EXPECT_THAT(parse("[-Infinity]"), fails(CRIA_INVALID_ARGUMENT, "at byte"));
}

/// The status after `get` of a cursor at the root of `text`.
template <typename Get> static Status visit(const char *text, Get get) {
  nlohmann::json document = parseJson(text, "f.json")->root();
  Status status;
  get(JsonCursor(document, "f.json", status));
  return status;
}

TEST(JsonCursor, NamesFieldAndFoundAndExpected) {
  const char *text =
      R"({"a": {"b": [1, 7.5, -3, 18446744073709551615, "7", 7.0]}})";
  auto element = [&](size_t i) {
    return visit(text, [&](JsonCursor root) {
      root["a"]["b"].elements()[i].integer(0, 10);
    });
  };
  EXPECT_TRUE(element(0).ok());
  EXPECT_TRUE(element(5).ok());
  EXPECT_THAT(element(1), fails(CRIA_INVALID_ARGUMENT,
                                "f.json: 'a.b[1]' is 7.5, expected a whole "
                                "number from 0 to 10"));
  EXPECT_THAT(element(2), fails(CRIA_INVALID_ARGUMENT, "'a.b[2]' is -3,"));
  EXPECT_THAT(element(3), fails(CRIA_INVALID_ARGUMENT, "18446744073709551615"));
  EXPECT_THAT(element(4), fails(CRIA_INVALID_ARGUMENT, "is \"7\", expected"));
  EXPECT_THAT(visit(text, [](JsonCursor root) { root["a"]["c"].string(); }),
              fails(CRIA_INVALID_ARGUMENT, "f.json: 'a.c' is missing"));
  EXPECT_THAT(visit(text, [](JsonCursor root) { root["a"].string(); }),
              fails(CRIA_INVALID_ARGUMENT, "is object, expected a string"));
}

TEST(JsonCursor, KeepsTheFirstError) {
  EXPECT_THAT(visit("{}",
                    [](JsonCursor root) {
                      root["x"]["y"].boolean();
                      root["z"].elements();
                    }),
              fails(CRIA_INVALID_ARGUMENT, "'x' is missing"));
}

TEST(JsonCursor, QuotesHostileNamesOnOneLine) {
  EXPECT_THAT(visit("{\"a\\nb\\u001b[2J\": 1}",
                    [](JsonCursor root) { root["a\nb\x1b[2J"].string(); }),
              fails(CRIA_INVALID_ARGUMENT, "'a\\nb\\u001b[2J' is 1"));
}
