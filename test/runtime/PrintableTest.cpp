#include "runtime/Printable.h"

#include "runtime/Json.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

using namespace cria;

TEST(Printable, KeepsWhatIsPrintable) {
  for (const char *text :
       {"", "model.layers.0", "C:\\n", "Größe 尺寸 📏", "'quoted' \"twice\""}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printableLines(text), text);
  }
}

TEST(Printable, EscapesWhatATerminalObeys) {
  const std::pair<std::string, const char *> cases[] = {
      {"a\x1b[31m", "a\\u001b[31m"},
      {"\x7f\b", "\\u007f\\u0008"},
      {std::string("a\0b", 3), "a\\u0000b"},
      {"a\r\nb\tc", "a\\r\\nb\\tc"},
      {"\u009b31m", "\\u009b31m"},                     // CSI as one character
      {"\u202e\u2066\u200f", "\\u202e\\u2066\\u200f"}, // directions
      {"\u2028\u2029", "\\u2028\\u2029"},              // line, paragraph
      {"\U000e0041", "\\udb40\\udc41"},                // a tag, in UTF-16
      {"\xff\xc3(\xe2\x82", "\\xff\\xc3(\\xe2\\x82"},  // not UTF-8
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},             // half a surrogate pair
  };
  for (const auto &[text, expected] : cases) {
    EXPECT_EQ(printable(text), expected);
    EXPECT_EQ(printable(printable(text)), expected);
  }
  EXPECT_EQ(printableLines("{\n\t\"a\": \x1b\r}"), "{\n\t\"a\": \\u001b\\r}");
}

// Whoever writes a message need not think of it.
TEST(Printable, EveryMessageIs) {
  EXPECT_EQ(Status(CRIA_NOT_FOUND, "a\n\x1b").message(), "a\\n\\u001b");
  EXPECT_EQ(quote("a\n'b'"), "'a\\n'b''");
  std::string text(199, 'x');
  EXPECT_EQ(quote(text + "\u20ac"), "'" + text + "...'");
}
