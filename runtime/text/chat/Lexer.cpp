#include "runtime/text/chat/Lexer.h"

#include "runtime/text/chat/Value.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>

namespace cria::chat {

/// The source with "\n" as its line breaks, without one at the end.
static std::string unifyLines(std::string_view source) {
  std::string result;
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '\r' && source.substr(at, 2) == "\r\n")
      continue;
    result += source[at] == '\r' ? '\n' : source[at];
  }
  if (!result.empty() && result.back() == '\n')
    result.pop_back();
  return result;
}

/// The place where the white space at the end of `text` begins.
static size_t trailingSpace(std::string_view text) {
  size_t begin = 0; // after the last character that is not white space
  for (size_t at = 0; at < text.size();)
    if (!isPythonSpace(takeCharacter(text, at)))
      begin = at;
  return begin;
}

static bool isNameByte(char c) {
  return isalnum(static_cast<unsigned char>(c)) || c == '_' || c < 0;
}

static bool isDigit(char c) { return c >= '0' && c <= '9'; }

namespace {

class Lexer {
public:
  explicit Lexer(std::string text) : source(std::move(text)) {}

  Result<std::vector<Token>> run() {
    while (at < source.size() && status.ok()) {
      size_t tag = findTag();
      emitText(tag);
      if (tag < source.size())
        lexTag(source[tag + 1]);
    }
    if (!status.ok())
      return status;
    add(Token::Kind::End, "end of template");
    return std::move(tokens);
  }

private:
  void fail(const std::string &what) {
    if (status.ok())
      status = Status(CRIA_INVALID_ARGUMENT,
                      "line " + std::to_string(line) + ": " + what);
  }

  void add(Token::Kind kind, std::string text) {
    tokens.push_back({kind, std::move(text), line});
  }

  void advance(size_t count) {
    line += static_cast<int>(
        std::count(source.begin() + at, source.begin() + at + count, '\n'));
    at += count;
  }

  size_t findTag() const {
    for (size_t tag = at; (tag = source.find('{', tag)) != source.npos; ++tag)
      if (tag + 1 < source.size() &&
          std::string_view("{%#").find(source[tag + 1]) != std::string::npos)
        return tag;
    return source.size();
  }

  /// Emits the text before the tag at `tag`, without the white space that the
  /// tag's sign or lstrip_blocks removes.
  void emitText(size_t tag) {
    std::string_view text = std::string_view(source).substr(at, tag - at);
    char sign = tag + 2 < source.size() ? source[tag + 2] : ' ';
    if (tag < source.size() && sign == '-') {
      text = text.substr(0, trailingSpace(text));
    } else if (tag < source.size() && sign != '+' && source[tag + 1] != '{') {
      size_t begin = text.rfind('\n') + 1; // 0 where there is none
      if ((begin > 0 || atLineStart) && trailingSpace(text.substr(begin)) == 0)
        text = text.substr(0, begin);
    }
    if (!text.empty())
      add(Token::Kind::Text, std::string(text));
    advance(tag - at);
  }

  /// Where the white space after the name ends if "{% name" stands at `tag`, or
  /// npos.
  size_t afterName(size_t tag, std::string_view name) const {
    auto skipSpace = [&](size_t place) {
      while (place < source.size() &&
             isPythonSpace(static_cast<unsigned char>(source[place])))
        ++place;
      return place;
    };
    if (source.compare(tag, 2, "{%") != 0)
      return source.npos;
    bool sign = tag + 2 < source.size() &&
                (source[tag + 2] == '-' || source[tag + 2] == '+');
    size_t begin = skipSpace(tag + 2 + sign);
    return source.compare(begin, name.size(), name) == 0
               ? skipSpace(begin + name.size())
               : source.npos;
  }

  /// Whether a block closes at `place`, maybe after one of `signs`.
  bool closesAt(size_t place, std::string_view signs) const {
    if (place >= source.size())
      return false;
    bool sign = signs.find(source[place]) != signs.npos;
    return source.compare(place + sign, 2, "%}") == 0;
  }

  /// "{% raw %}", text that is no template, "{% endraw %}". A line break after
  /// the first of the tags stays.
  bool lexRaw() {
    size_t close = afterName(at, "raw");
    if (!closesAt(close, "-"))
      return false;
    bool minus = source[close] == '-';
    advance(close - at);
    if (minus)
      closeTag('%');
    else
      advance(2);
    atLineStart = minus && atLineStart;
    for (size_t tag = at; (tag = source.find("{%", tag)) != source.npos; ++tag)
      if (size_t end = afterName(tag, "endraw"); closesAt(end, "-+")) {
        emitText(tag);
        advance(end - at);
        closeTag('%');
        return true;
      }
    fail("expected 'endraw'");
    return true;
  }

  void lexTag(char kind) {
    if (lexRaw())
      return;
    size_t signs = at + 2 < source.size() &&
                   (source[at + 2] == '-' || source[at + 2] == '+');
    if (kind != '#') {
      bool print = kind == '{';
      add(print ? Token::Kind::OpenPrint : Token::Kind::OpenBlock,
          print ? "{{" : "{%");
      advance(2 + signs);
      while (status.ok() && !closes(kind))
        lexToken();
      if (status.ok())
        add(print ? Token::Kind::ClosePrint : Token::Kind::CloseBlock,
            print ? "}}" : "%}");
    } else {
      size_t begin = at + 2 + signs, end = source.find("#}", begin);
      if (end == source.npos)
        return fail("the comment does not end");
      bool sign =
          end > begin && (source[end - 1] == '-' || source[end - 1] == '+');
      advance(end - sign - at);
    }
    if (status.ok())
      closeTag(kind);
  }

  /// Whether the tag ends here; skips white space.
  bool closes(char kind) {
    while (at < source.size() &&
           isPythonSpace(static_cast<unsigned char>(source[at])))
      advance(1);
    if (at == source.size()) {
      fail("the tag does not end");
      return false;
    }
    bool sign = source[at] == '-' || (source[at] == '+' && kind == '%');
    const char mark[] = {kind == '{' ? '}' : '%', '}', 0};
    return brackets.empty() && source.compare(at + sign, 2, mark) == 0;
  }

  /// Closes a tag. Skips the white space after it that its sign or trim_blocks
  /// removes.
  void closeTag(char kind) {
    bool minus = source[at] == '-', plus = source[at] == '+';
    advance((minus || plus) + 2);
    size_t end = at;
    if (minus)
      while (end < source.size()) {
        size_t next = end;
        if (!isPythonSpace(takeCharacter(source, next)))
          break;
        end = next;
      }
    else if (kind != '{' && !plus && source.compare(at, 1, "\n") == 0)
      ++end;
    advance(end - at);
    atLineStart = source[at - 1] == '\n';
  }

  void lexToken() {
    char c = source[at];
    if (c == '"' || c == '\'')
      return lexString(c);
    if (isDigit(c))
      return lexNumber();
    if (isNameByte(c)) {
      size_t end = at;
      while (end < source.size() && isNameByte(source[end]))
        ++end;
      add(Token::Kind::Name, source.substr(at, end - at));
      return advance(end - at);
    }
    lexOperator(c);
  }

  void lexNumber() {
    size_t end = at;
    auto digits = [&] {
      while (end < source.size() &&
             (isDigit(source[end]) || source[end] == '_'))
        ++end;
    };
    auto digitAt = [&](size_t place) {
      return place < source.size() && isDigit(source[place]);
    };
    digits();
    bool index = at > 0 && source[at - 1] == '.'; // of "list.0.1"
    bool real = !index && source.compare(end, 1, ".") == 0 && digitAt(end + 1);
    if (real) {
      ++end;
      digits();
    }
    if (end < source.size() && (source[end] == 'e' || source[end] == 'E')) {
      bool sign = end + 1 < source.size() &&
                  (source[end + 1] == '+' || source[end + 1] == '-');
      if (digitAt(end + 1 + sign)) {
        real = true;
        end += 1 + sign;
        digits();
      }
    }
    std::string text = source.substr(at, end - at);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    add(real ? Token::Kind::Float : Token::Kind::Integer, text);
    advance(end - at);
  }

  void lexOperator(char c) {
    for (const char *two : {"==", "!=", ">=", "<=", "//", "**"})
      if (source.compare(at, 2, two) == 0) {
        add(Token::Kind::Operator, two);
        return advance(2);
      }
    if (std::string_view("+-*/%~<>()[]{},.:|=").find(c) ==
        std::string_view::npos)
      return fail("the character '" + std::string(1, c) + "' is not expected");
    if (c == '(' || c == '[' || c == '{')
      brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c)
        return fail(std::string("'") + c + "' closes nothing");
      brackets.pop_back();
    }
    add(Token::Kind::Operator, std::string(1, c));
    advance(1);
  }

  void lexString(char quote) {
    std::string text;
    size_t end = at + 1;
    while (end < source.size() && source[end] != quote)
      if (source[end] == '\\')
        end = unescape(end, text);
      else
        text += source[end++];
    if (end >= source.size())
      return fail("the string does not end");
    add(Token::Kind::String, std::move(text));
    advance(end + 1 - at);
  }

  /// Appends the character that the escape at `place` stands for. Returns the
  /// place after the escape.
  size_t unescape(size_t place, std::string &text) {
    static constexpr std::string_view names = "nrtbfav0\\'\"",
                                      meanings("\n\r\t\b\f\a\v\0\\'\"", 11);
    char c = place + 1 < source.size() ? source[place + 1] : '\\';
    if (size_t known = names.find(c); known != names.npos) {
      text += meanings[known];
      return place + 2;
    }
    if (c == '\n') // joins lines
      return place + 2;
    size_t length = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    std::string digits =
        source.substr(std::min(place + 2, source.size()), length);
    bool hex =
        digits.size() == length &&
        digits.find_first_not_of("0123456789abcdefABCDEF") == digits.npos;
    unsigned long point = length && hex ? std::stoul(digits, nullptr, 16) : 0;
    if (length && (!hex || point > 0x10FFFF || point >> 11 == 0x1B)) {
      fail("a wrong escape in a string");
    } else if (length) {
      appendCharacter(text, static_cast<char32_t>(point));
    } else { // no escape: both characters stay
      text += '\\';
      return place + 1;
    }
    return place + 2 + length;
  }

  std::string source;
  size_t at = 0;
  int line = 1;
  bool atLineStart = true;
  std::string brackets; // closing brackets of the open ones
  std::vector<Token> tokens;
  Status status;
};

} // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(unifyLines(source)).run();
}

} // namespace cria::chat
