/// MLIR's parser calls itself for each bracket, and its printer and verifier do
/// for each attribute, type, region and affine expression in another:
///
///   module { module { ...        tuple<tuple<...        loc(callsite(callsite(
///   #a1 = [#a0]                  // as deep as #a0, plus one
///   affine_map<(d0) -> (- - -d0 + d0 + ...)>
///
/// So the text is scanned for tokens before it is parsed. The scan knows
/// strings, comments, brackets, aliases and operators, and no other syntax but
/// array<index: 1>, on which MLIR 22's parser crashes.
#include "lowering/import/Nesting.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

/// The most brackets around a token, aliases expanded.
static constexpr size_t kMostDepth = 128;
/// The most operators between two commas or brackets.
static constexpr size_t kMostOperators = 1024;

namespace {
class Scan {
public:
  Scan(StringRef text) : text(text) {}
  /// Scans to the end, or to the token `at` with which the text has too many
  /// brackets or operators.
  void run();
  bool isTooDeep() const { return deepest > kMostDepth; }
  bool isTooLong() const {
    return !stack.empty() && stack.back().second > kMostOperators;
  }
  /// Whether the token before `at` begins an array of a type that none has.
  bool isNoArray = false;
  size_t at = 0;

private:
  void step();
  void skip();
  void word();
  void begin(char first);
  void open(char bracket);
  void close(char bracket);
  void reach(size_t depth);
  bool isNext(char c) const {
    return at + 1 < text.size() && text[at + 1] == c;
  }

  StringRef text;
  /// The brackets that are open, and the operators since each or since the last
  /// comma in it.
  SmallVector<std::pair<char, size_t>> stack;
  /// The depth of each alias, with its sigil.
  StringMap<size_t> aliases;
  /// The alias that is being defined, or empty; and how deep it is so far.
  StringRef alias;
  size_t depth = 0, deepest = 0;
  /// Whether no token of the line was seen, and whether the value of an alias
  /// continues after the last token.
  bool newLine = true, continues = false;
};
} // namespace

void Scan::reach(size_t now) {
  deepest = std::max(deepest, now);
  depth = std::max(depth, now);
  if (!alias.empty())
    aliases[alias] = depth;
}

/// Skips a string or a comment.
void Scan::skip() {
  if (text[at] == '/') {
    at = std::min(text.find('\n', at), text.size());
    return;
  }
  for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
    at += text[at] == '\\';
  ++at;
}

/// Reads a name with its sigil, such as `#a`, `!t.u` or `mod`.
void Scan::word() {
  size_t end = at + 1;
  while (end < text.size() &&
         (isAlnum(text[end]) || is_contained("_$.", text[end])))
    ++end;
  StringRef name = text.slice(at, end);
  at = end;
  StringRef rest = text.substr(end).ltrim(" \t\r\n");
  if (name == "array" && rest.consume_front("<")) {
    rest = rest.ltrim(" \t\r\n");
    isNoArray = rest.starts_with("!") || rest.starts_with("index");
  }
  if (name == "mod" || name == "floordiv" || name == "ceildiv")
    if (!stack.empty())
      ++stack.back().second;
  if (name[0] != '#' && name[0] != '!')
    return;
  if (stack.empty() && rest.starts_with("=") && !rest.starts_with("==")) {
    alias = name;
    aliases[alias] = depth = 0;
  } else if (auto found = aliases.find(name); found != aliases.end()) {
    reach(stack.size() + found->second);
  }
}

void Scan::open(char bracket) {
  stack.push_back({bracket, 0});
  reach(stack.size());
}

/// A bracket closes those inside it, too: a `<` may be less-than.
void Scan::close(char bracket) {
  char opening = bracket == ')'   ? '('
                 : bracket == ']' ? '['
                 : bracket == '}' ? '{'
                                  : '<';
  auto isOpening = [&](auto open) { return open.first == opening; };
  if (opening == '<' ? !stack.empty() && isOpening(stack.back())
                     : any_of(stack, isOpening))
    while (stack.pop_back_val().first != opening) {
    }
}

/// An op that begins a line ends the definition of an alias.
void Scan::begin(char first) {
  bool isOp = isAlpha(first) || first == '%' || first == '"';
  if (newLine && stack.empty() && isOp && !continues)
    alias = "";
  newLine = false;
  continues = first == '=' || first == ':';
}

void Scan::step() {
  char c = text[at];
  if (isSpace(c)) {
    newLine |= c == '\n';
    ++at;
    return;
  }
  if (c == '/' && isNext('/'))
    return skip();
  begin(c);
  if (c == '"')
    return skip();
  if (isAlpha(c) || is_contained("#!@%^_", c))
    return word();
  bool isArrow = c == '-' && isNext('>');
  if (isArrow || (is_contained("<>", c) && isNext('='))) {
    continues |= isArrow;
    at += 2;
    return;
  }
  if (is_contained("([{<", c))
    open(c);
  else if (is_contained(")]}>", c))
    close(c);
  else if (is_contained("+-*", c) && !stack.empty())
    ++stack.back().second;
  else if (c == ',' && !stack.empty())
    stack.back().second = 0;
  ++at;
}

void Scan::run() {
  while (at < text.size() && !isTooDeep() && !isTooLong() && !isNoArray)
    step();
}

Error cria::checkNesting(StringRef text, StringRef name) {
  Scan scan(text);
  scan.run();
  if (!scan.isTooDeep() && !scan.isTooLong() && !scan.isNoArray)
    return Error::success();
  StringRef before = text.take_front(scan.at - 1);
  size_t column = before.size() - before.rfind('\n');
  std::string expected = "an array of integers or floats";
  if (scan.isTooDeep())
    expected =
        formatv("at most {0} brackets in each other, with aliases expanded",
                kMostDepth);
  else if (scan.isTooLong())
    expected =
        formatv("at most {0} operators in one expression", kMostOperators);
  return createStringError(formatv("{0}:{1}:{2}: expected {3}", name,
                                   before.count('\n') + 1, column, expected));
}
