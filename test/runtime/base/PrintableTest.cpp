#include "runtime/base/Printable.h"

#include "runtime/base/Json.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

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

// The runtime's own table and decoder against utf8proc's.
TEST(Printable, EscapesControlsAndFormatsOfUnicode) {
  for (utf8proc_int32_t point = 0; point < 0x110000; ++point) {
    utf8proc_uint8_t bytes[4];
    if (!utf8proc_codepoint_valid(point))
      continue;
    std::string text(reinterpret_cast<char *>(bytes),
                     utf8proc_encode_char(point, bytes));
    utf8proc_category_t category = utf8proc_category(point);
    bool isEscaped =
        category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
        category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
    ASSERT_EQ(printable(text) != text, isEscaped) << point;
  }
  // Any two bytes.
  for (unsigned pair = 0; pair < 0x10000; ++pair) {
    char text[2] = {static_cast<char>(pair >> 8), static_cast<char>(pair)};
    if (text[0] == '\\')
      continue;
    utf8proc_int32_t character;
    auto length = utf8proc_iterate(
        reinterpret_cast<const utf8proc_uint8_t *>(text), 2, &character);
    std::string shown = printable({text, 2});
    ASSERT_EQ(shown.compare(0, 2, "\\x") == 0, length < 0) << pair;
  }
}

// Whoever writes a message need not think of it.
TEST(Printable, EveryMessageIs) {
  EXPECT_EQ(Status(CRIA_NOT_FOUND, "a\n\x1b").message(), "a\\n\\u001b");
  EXPECT_EQ(quote("a\n'b'"), "'a\\n'b''");
  std::string text(199, 'x');
  EXPECT_EQ(quote(text + "\u20ac"), "'" + text + "...'");
}
