/// A hostile expression can take exponential time. With a careless expression,
/// a hostile text can take quadratic time. So the work of a match is counted.
/// PCRE2's interpreter calls back before each item of the expression. The
/// callback pays for the bytes that the last item passed, times the length of
/// that item, because a class like [abc...] may compare each byte with all its
/// members.
///
/// The interpreter is slow, and nearly all matches are short. So machine code
/// looks for each match first, in a window of some bytes. If a match touches
/// the end of the window (PCRE2 calls that a partial match), the interpreter
/// looks for it. The match is the same either way.
///
/// Machine code cannot be counted so finely, but it is bounded. PCRE2 limits
/// its steps - the repeats of a character or group that succeed - for each
/// place where a match may begin. Groups without a repeat take no steps, so
/// they would be free: (a|aa)(a|aa)... takes exponential time. So a callback
/// that counts stands after each group, unless the group ends the expression.
/// Between two steps, machine code passes at most the window at each item of
/// the expression. The limit of steps depends on the length of the expression,
/// so that one place takes at most some milliseconds. After some hundred
/// places, the CPU time of the thread is paid for.
#include "runtime/text/tokenizer/Regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <new>
#include <utility>
#include <vector>

namespace cria {

/// The longest expression. The longest real one has a tenth of this length.
static constexpr size_t maxPatternBytes = 16u << 10;
/// How many bytes machine code sees of a text.
static constexpr size_t window = 128;
/// At most: steps at a place x bytes of the window x bytes of the expression.
static constexpr size_t workAtPlace = 2u << 20;
/// With fewer steps than this, machine code would fail too often to help.
static constexpr uint32_t leastFastSteps = 8;
/// The least cost of a search, in units of effort.
static constexpr uint64_t searchWork = 64;
/// The places that machine code may try between two looks at the clock.
static constexpr size_t placesPerLook = 512;

static uint64_t cpuNanoseconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(time.tv_nsec);
}

/// PCRE2's data for matching, and the cost of a match so far.
struct Effort::Scratch {
  explicit Scratch(Effort &effort);
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  int callout(const pcre2_callout_block &block);
  bool payTime(size_t placesTried);

  Effort &effort;
  pcre2_match_data *match;
  pcre2_match_context *context;

  // Of machine code.
  uint32_t groupsLeft = 0; // groups that may still succeed
  size_t places = 0;       // tried since the last look at the clock
  uint64_t looked = cpuNanoseconds();

  // Of the interpreter.
  uint64_t longestRepeat = 1;
  size_t position = 0, item = 0; // of the last callback: place, item's length
};

Effort::Scratch::Scratch(Effort &effort)
    : effort(effort), match(pcre2_match_data_create(1, nullptr)),
      context(pcre2_match_context_create(nullptr)) {
  if (!context)
    return;
  pcre2_set_heap_limit(context, 64 << 10); // KiB
  pcre2_set_callout(
      context,
      [](pcre2_callout_block *block, void *scratch) {
        return static_cast<Scratch *>(scratch)->callout(*block);
      },
      this);
}

Effort::Scratch::~Scratch() {
  pcre2_match_data_free(match);
  pcre2_match_context_free(context);
}

/// Fails the match if it costs too much.
int Effort::Scratch::callout(const pcre2_callout_block &block) {
  if (block.callout_number == 1) // after a group, in machine code
    return groupsLeft-- == 0 ? PCRE2_ERROR_MATCHLIMIT : 0;
  size_t at = block.current_position;
  uint64_t passed = at > position ? at - position : position - at;
  uint64_t work = 16 + item * (passed + longestRepeat);
  position = at;
  item = block.next_item_length;
  return effort.spend(work) ? 0 : PCRE2_ERROR_CALLOUT;
}

bool Effort::Scratch::payTime(size_t placesTried) {
  places += placesTried;
  if (places < placesPerLook)
    return true;
  places = 0;
  uint64_t before = std::exchange(looked, cpuNanoseconds());
  return effort.spend(looked - before);
}

Status Effort::tooLong(std::string_view what) {
  return Status(CRIA_INVALID_ARGUMENT, std::string(what) + " takes too long");
}

static Status unsupported(std::string_view pattern, std::string_view what) {
  return Status(CRIA_UNIMPLEMENTED,
                "'" + std::string(what) + "' in the regular expression '" +
                    std::string(pattern.substr(0, 200)) + "' is not supported");
}

/// The compiled expression; nullptr and a message if the syntax is wrong.
static std::shared_ptr<void>
compileWith(const std::string &syntax, uint32_t options, std::string &message) {
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code *code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(syntax.data()), syntax.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | options,
                    &error, &place, nullptr);
  if (error == PCRE2_ERROR_HEAP_FAILED)
    throw std::bad_alloc();
  if (!code) {
    PCRE2_UCHAR text[128] = "";
    pcre2_get_error_message(error, text, sizeof(text));
    message = reinterpret_cast<const char *>(text);
  }
  return std::shared_ptr<void>(code, [](void *held) {
    pcre2_code_free(static_cast<pcre2_code *>(held));
  });
}

/// PCRE2's spelling of a property: "p{Han}" is a script in Oniguruma. In PCRE2
/// it would also be the characters that scripts share. Empty if PCRE2 does not
/// know the property.
static std::string translateProperty(std::string_view property) {
  bool negated = (property[0] == 'P') != (property.substr(2, 1) == "^");
  std::string name(property.substr(property.substr(2, 1) == "^" ? 3 : 2));
  std::string script = std::string(negated ? "\\P{sc:" : "\\p{sc:") + name;
  std::string plain = "\\" + std::string(property), ignored;
  if (name.size() > 3 && compileWith(script, 0, ignored))
    return script;
  return compileWith(plain, 0, ignored) ? plain : "";
}

/// Translates the escape at `at` to PCRE2's spelling and moves `at` to its last
/// character. Empty if the two disagree. PCRE2's own \s contains U+180E, which
/// is no longer white space.
static std::string translateEscape(std::string_view pattern, size_t &at) {
  char c = ++at < pattern.size() ? pattern[at] : '\0';
  switch (c) {
  case 's':
    return "\\p{White_Space}";
  case 'S':
    return "\\P{White_Space}";
  case 'd':
    return "\\p{Nd}";
  case 'D':
    return "\\P{Nd}";
  case 'p':
  case 'P': { // \p{Name}
    size_t begin = at - 1;
    at = std::min(pattern.find('}', at), pattern.size());
    bool named = pattern.substr(begin + 2, 1) == "{" && at < pattern.size();
    return named ? translateProperty(pattern.substr(begin + 1, at - begin))
                 : "";
  }
  case 'n':
  case 'r':
  case 't':
    return std::string("\\") + c;
  default: // a punctuation mark stands for itself in both
    if (c > ' ' && c < 0x7F && !isalnum(static_cast<unsigned char>(c)))
      return std::string("\\") + c;
    return "";
  }
}

/// Whether the group that opens at `at` has the same meaning in both.
static bool sameGroup(std::string_view pattern, size_t at) {
  if (pattern.substr(at, 2) == "(*")
    return false;
  if (pattern.substr(at, 2) != "(?")
    return true;
  for (std::string_view form :
       {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"})
    if (pattern.substr(at, form.size()) == form)
      return true;
  return false;
}

namespace {

/// An expression in PCRE2's syntax.
struct Syntax {
  std::string plain;
  std::string counted;        // with a callback after each group
  uint64_t longestRepeat = 1; // the largest n of x{n}
};

} // namespace

/// The deepest set in a set.
static constexpr int maxSets = 16;

namespace {

/// A set on its way to PCRE2, part by part: "&&" intersects parts.
class SetParts {
public:
  std::string members; // the characters of the current part

  void addSet(std::string set) {
    endMembers(); // "[a-[b]c]" has no range "-c"
    sets.push_back(std::move(set));
    isPlain = false;
  }
  /// Ends a part at "&&"; false if it is empty.
  bool endPart() {
    std::string part = takePart();
    before += "(?=" + part + ")";
    isPlain = false;
    return !part.empty();
  }
  /// The whole set; empty if the last part is.
  std::string take(bool negated) {
    if (isPlain)
      return (negated ? "[^" : "[") + members + "]";
    std::string last = takePart();
    if (last.empty())
      return "";
    return negated ? "(?:(?!" + before + last + ")(?s:.))"
                   : "(?:" + before + last + ")";
  }

private:
  void endMembers() {
    if (!members.empty())
      sets.push_back("[" + std::exchange(members, "") + "]");
  }
  std::string takePart() {
    endMembers();
    std::string part;
    for (const std::string &set : sets)
      part += (part.empty() ? "" : "|") + set;
    size_t count = std::exchange(sets, {}).size();
    return count > 1 ? "(?>" + part + ")" : part;
  }

  std::string before;            // what the current part intersects
  std::vector<std::string> sets; // the sets inside the current part
  bool isPlain = true;
};

} // namespace

/// Translates the set that opens at `at` to one that PCRE2 knows, or to an
/// expression that matches one character in one way: PCRE2 has no sets inside
/// sets ("[a[bc]]") and no intersections ("[a-z&&[^aeiou]]"). Moves `at` to the
/// bracket that closes the set. Empty if the set is not supported.
static std::string translateSet(std::string_view pattern, size_t &at,
                                bool ignoresCase, int depth = 0) {
  bool negated = pattern.substr(at + 1, 1) == "^";
  // Of letters in either case, Oniguruma folds the inner set before it negates.
  if (negated && depth > 0 && ignoresCase)
    return "";
  size_t first = at + 1 + negated;
  SetParts parts;
  for (at = first; at < pattern.size(); ++at) {
    std::string_view two = pattern.substr(at, 2);
    if (two == "[:" || (two == "&&" && !parts.endPart()))
      return "";
    if (two == "&&") {
      ++at;
    } else if (pattern[at] == '[') {
      std::string inner =
          depth < maxSets ? translateSet(pattern, at, ignoresCase, depth + 1)
                          : "";
      if (inner.empty())
        return "";
      parts.addSet(std::move(inner));
    } else if (pattern[at] == '\\') {
      std::string escape = translateEscape(pattern, at);
      if (escape.empty())
        return "";
      parts.members += escape;
    } else if (pattern[at] == ']' && at > first) {
      return parts.take(negated);
    } else {
      // A part of a set may begin with it, and "[^" is another set.
      parts.members += pattern[at] == '^' ? "\\^" : pattern.substr(at, 1);
    }
  }
  return ""; // does not close
}

/// PCRE2's spelling of an anchor at `at`; empty if there is none. Ruby's ^ and
/// $ are those of lines.
static std::string translateAnchor(std::string_view pattern, size_t &at) {
  static constexpr std::pair<std::string_view, const char *> anchors[] = {
      {"^", "(?m:^)"},
      {"$", "(?m:$)"},
      {"\\A", "\\A"},
      {"\\z", "\\z"},
      {"\\Z", "\\Z"}};
  for (const auto &[anchor, spelling] : anchors) {
    if (pattern.substr(at, anchor.size()) != anchor)
      continue;
    size_t next = at + anchor.size();
    if (next < pattern.size() &&
        std::string_view("*+?{").find(pattern[next]) != std::string_view::npos)
      return ""; // repeated
    at = next - 1;
    return spelling;
  }
  return "";
}

/// Whether the brace at `at` ends "{n}". "{n}?" is n times or not at all in
/// Oniguruma, and n times in PCRE2.
static bool endsCount(std::string_view pattern, size_t at) {
  size_t begin = pattern.find_last_not_of("0123456789", at - 1);
  return begin != pattern.npos && pattern[begin] == '{' && begin + 1 < at;
}

/// Translates an expression. Refuses what PCRE2 understands otherwise or not at
/// all: \w, \b, \h and the like, `}+`, `{n}?`, inline options except (?i:...).
static Result<Syntax> translate(std::string_view pattern) {
  Syntax result;
  auto append = [&](std::string_view text) {
    result.plain += text;
    result.counted += text;
  };
  struct Group {
    size_t begin;  // in `counted`
    bool oneMatch; // lookaround and (?>...) match in one way
    bool ignoresCase;
  };
  std::vector<Group> groups; // open ones
  for (size_t at = 0; at < pattern.size(); ++at) {
    char c = pattern[at];
    std::string_view two = pattern.substr(at, 2);
    bool ignoresCase = !groups.empty() && groups.back().ignoresCase;
    if (std::string anchor = translateAnchor(pattern, at); !anchor.empty()) {
      append(anchor);
      continue;
    }
    if (c == '\\' || c == '[') {
      size_t begin = at;
      std::string found = c == '[' ? translateSet(pattern, at, ignoresCase)
                                   : translateEscape(pattern, at);
      if (found.empty())
        return unsupported(
            pattern, c == '[' ? pattern.substr(begin, at + 1 - begin) : two);
      append(found);
      continue;
    }
    bool differs = c == '^' || c == '$' || two == "}+" || two == "{," ||
                   (two == "}?" && endsCount(pattern, at)) ||
                   (c == '(' && !sameGroup(pattern, at));
    if (differs)
      return unsupported(pattern, two);
    if (c == '(')
      groups.push_back({result.counted.size(),
                        two == "(?" && pattern.substr(at, 3) != "(?:" &&
                            pattern.substr(at, 3) != "(?i",
                        ignoresCase || pattern.substr(at, 3) == "(?i"});
    append(pattern.substr(at, 1));
    if (c == ')' && !groups.empty()) {
      // A group that ends the expression is never matched in another way.
      bool last = groups.size() == 1 &&
                  (at + 1 == pattern.size() || pattern[at + 1] == '|');
      if (!last && !groups.back().oneMatch) {
        result.counted.insert(groups.back().begin, "(?:");
        result.counted += "(?C1))";
      }
      groups.pop_back();
    }
    if (c == '{') {
      uint64_t count = 0;
      std::from_chars(pattern.data() + at + 1, pattern.data() + pattern.size(),
                      count);
      result.longestRepeat = std::max(result.longestRepeat, count);
    }
  }
  return result;
}

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > maxPatternBytes)
    return Status(CRIA_INVALID_ARGUMENT, "the regular expression has " +
                                             std::to_string(pattern.size()) +
                                             " bytes, expected at most " +
                                             std::to_string(maxPatternBytes));
  Result<Syntax> syntax = translate(pattern);
  if (!syntax.ok())
    return syntax.status();
  Regex regex;
  std::string message;
  regex.longestRepeat = syntax->longestRepeat;
  regex.code = compileWith(syntax->plain, PCRE2_AUTO_CALLOUT, message);
  if (!regex.code)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the regular expression '" +
                      std::string(pattern.substr(0, 200)) +
                      "' is wrong, or not supported: " + message);
  size_t steps = workAtPlace / window / std::max<size_t>(pattern.size(), 16);
  if (steps < leastFastSteps)
    return regex;
  regex.fastSteps = static_cast<uint32_t>(steps);
  regex.fast = compileWith(syntax->counted, 0, message);
  if (regex.fast &&
      pcre2_jit_compile(static_cast<pcre2_code *>(regex.fast.get()),
                        PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) != 0)
    regex.fast = nullptr; // not on this machine, or not this expression
  return regex;
}

static Status matchError(int error, size_t at) {
  std::string where = " at byte " + std::to_string(at) + " of the text";
  if (error == PCRE2_ERROR_CALLOUT || error == PCRE2_ERROR_MATCHLIMIT)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the tokenizer's regular expression takes too long" + where);
  if (error == PCRE2_ERROR_HEAPLIMIT || error == PCRE2_ERROR_DEPTHLIMIT)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the tokenizer's regular expression takes too much memory" +
                      where);
  if (error == PCRE2_ERROR_NOMEMORY)
    return Status(CRIA_RESOURCE_EXHAUSTED, "out of memory" + where);
  PCRE2_UCHAR message[128] = "";
  pcre2_get_error_message(error, message, sizeof(message));
  return Status(CRIA_INTERNAL, std::string("PCRE2: ") +
                                   reinterpret_cast<const char *>(message) +
                                   where);
}

Effort::Scratch *Regex::scratchOf(Effort &effort) {
  if (!effort.scratch)
    effort.scratch = std::make_shared<Scratch>(effort);
  bool made = effort.scratch->match && effort.scratch->context;
  return made ? effort.scratch.get() : nullptr;
}

/// Finds the next match at or after `from` by machine code, window by window.
/// PCRE2_ERROR_PARTIAL if the interpreter must search, from `from` on.
int Regex::matchFast(std::string_view text, size_t &from,
                     Scratch &scratch) const {
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  pcre2_set_match_limit(scratch.context, fastSteps);
  for (;;) {
    size_t end = std::min(from + window, text.size());
    while (end < text.size() && (text[end] & 0xC0) == 0x80)
      ++end;
    bool whole = end == text.size();
    scratch.groupsLeft = fastSteps;
    int found = pcre2_jit_match(static_cast<pcre2_code *>(fast.get()), subject,
                                end, from, whole ? 0 : PCRE2_PARTIAL_HARD,
                                scratch.match, scratch.context);
    size_t last = found >= 0 ? pcre2_get_ovector_pointer(scratch.match)[0]
                             : end; // the last place tried
    if (!scratch.payTime(last - std::min(from, last) + 1))
      return PCRE2_ERROR_CALLOUT;
    // An empty match at the window's end may be one of "$", which is no end.
    if (found >= 0 && !whole &&
        pcre2_get_ovector_pointer(scratch.match)[1] == end)
      return PCRE2_ERROR_PARTIAL;
    if (found >= 0 || (found == PCRE2_ERROR_NOMATCH && whole))
      return found;
    if (found != PCRE2_ERROR_NOMATCH)
      return PCRE2_ERROR_PARTIAL;
    from = end;
  }
}

/// Finds the next match at or after `from`; its place is in the match data.
int Regex::match(std::string_view text, size_t from, Scratch &scratch) const {
  if (fast) {
    int found = matchFast(text, from, scratch);
    if (found != PCRE2_ERROR_PARTIAL)
      return found;
  }
  scratch.longestRepeat = longestRepeat;
  scratch.position = from;
  scratch.item = 0;
  pcre2_set_match_limit(scratch.context, UINT32_MAX);
  return pcre2_match(static_cast<pcre2_code *>(code.get()),
                     reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                     from, PCRE2_NO_UTF_CHECK, scratch.match, scratch.context);
}

Status Regex::find(std::string_view text, Effort &effort, SpanSink sink) const {
  Scratch *scratch = scratchOf(effort);
  if (!scratch)
    return Status(CRIA_RESOURCE_EXHAUSTED, "out of memory");
  const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(scratch->match);
  Status status;
  size_t done = 0; // end of the last match
  size_t from = 0; // where to search
  bool first = true;
  while (from <= text.size()) {
    int found = match(text, from, *scratch);
    if (found == PCRE2_ERROR_NOMATCH)
      break;
    if (found < 0)
      return matchError(found, from);
    size_t begin = ends[0], end = ends[1]; // `sink` may match, too
    if (!effort.spend(searchWork + end - from))
      return matchError(PCRE2_ERROR_CALLOUT, from);
    if (begin < from || end < begin) // no \K, no lookbehind before `from`
      return matchError(PCRE2_ERROR_INTERNAL, from);
    if (begin > done)
      status = sink({done, begin, false});
    // An empty match right after a match is none.
    if (status.ok() && (begin < end || begin > done || first))
      status = sink({begin, end, true});
    if (!status.ok())
      return status;
    first = false;
    done = end;
    from = end;
    if (begin == end) // empty: the next search starts one character on
      for (++from; from < text.size() && (text[from] & 0xC0) == 0x80;)
        ++from;
  }
  if (!effort.spend(searchWork + text.size() - done))
    return matchError(PCRE2_ERROR_CALLOUT, done);
  return done < text.size() ? sink({done, text.size(), false}) : Status();
}

} // namespace cria
