/// A hostile expression can take exponential time, a hostile text quadratic
/// time with a careless one. PCRE2 limits how often it backtracks, but one step
/// may still read the whole text; so a callout before each item of the
/// expression looks at the clock as well.
#include "runtime/TokenizerRegex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

namespace cria {

Deadline deadlineFor(size_t bytes) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(2) +
         std::chrono::microseconds(20 * bytes);
}

static Status unsupported(std::string_view pattern, std::string_view what) {
  return Status(CRIA_UNIMPLEMENTED,
                "'" + std::string(what) + "' in the regular expression '" +
                    std::string(pattern.substr(0, 200)) + "' is not supported");
}

/// The escape at `at`, which is moved to its last character, in PCRE2's
/// spelling; empty where the two disagree. PCRE2's own \s holds U+180E, which
/// is no white space any more.
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
    return std::string(named ? pattern.substr(begin, at - begin + 1) : "");
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

/// Whether the group that opens at `at` means the same in both.
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

/// The expression in PCRE2's syntax. Left out, because it means another thing
/// or nothing there: anchors (Ruby's ^ and $ are those of lines), \w, \b, \h
/// and the like, sets inside sets, `}+`, inline options but (?i:...).
static Result<std::string> translate(std::string_view pattern) {
  std::string result;
  bool inSet = false;
  for (size_t at = 0; at < pattern.size(); ++at) {
    char c = pattern[at];
    std::string_view two = pattern.substr(at, 2);
    if (c == '\\') {
      std::string escape = translateEscape(pattern, at);
      if (escape.empty())
        return unsupported(pattern, two);
      result += escape;
      continue;
    }
    bool differs = inSet ? c == '[' || two == "&&"
                         : c == '^' || c == '$' || two == "}+" || two == "{," ||
                               (c == '(' && !sameGroup(pattern, at));
    if (differs)
      return unsupported(pattern, two);
    result += c;
    if (c == '[' && at + 1 < pattern.size() && pattern[at + 1] == '^')
      result += pattern[++at];
    if (c == '[' || c == ']')
      inSet = c == '[';
  }
  return result;
}

Result<Regex> Regex::compile(std::string_view pattern) {
  Result<std::string> syntax = translate(pattern);
  if (!syntax.ok())
    return syntax.status();
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code *code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(syntax->data()), syntax->size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_AUTO_CALLOUT | PCRE2_NEVER_BACKSLASH_C,
      &error, &place, nullptr);
  if (!code) {
    PCRE2_UCHAR message[128] = "";
    pcre2_get_error_message(error, message, sizeof(message));
    return Status(CRIA_INVALID_ARGUMENT,
                  "the regular expression '" +
                      std::string(pattern.substr(0, 200)) +
                      "' is wrong: " + reinterpret_cast<const char *>(message));
  }
  Regex regex;
  regex.code = std::shared_ptr<void>(code, [](void *held) {
    pcre2_code_free(static_cast<pcre2_code *>(held));
  });
  return regex;
}

namespace {

struct Clock {
  Deadline deadline;
  unsigned steps = 0;
};

struct Matching {
  pcre2_match_data *data;
  pcre2_match_context *context;

  explicit Matching(const pcre2_code *code, Clock &clock)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    if (!context)
      return;
    pcre2_set_heap_limit(context, 64 << 10); // KiB
    pcre2_set_match_limit(context, UINT32_MAX);
    pcre2_set_callout(
        context,
        [](pcre2_callout_block *, void *state) {
          Clock &clock = *static_cast<Clock *>(state);
          bool late = ++clock.steps % 256 == 0 &&
                      std::chrono::steady_clock::now() > clock.deadline;
          return late ? PCRE2_ERROR_CALLOUT : 0;
        },
        &clock);
  }
  Matching(const Matching &) = delete;
  Matching &operator=(const Matching &) = delete;
  ~Matching() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
};

} // namespace

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

Status Regex::find(std::string_view text, Deadline deadline,
                   std::vector<Span> &spans) const {
  const auto *program = static_cast<const pcre2_code *>(code.get());
  Clock clock{deadline};
  Matching matching(program, clock);
  if (!matching.data || !matching.context)
    return Status(CRIA_RESOURCE_EXHAUSTED, "out of memory");
  size_t done = 0; // end of the last match
  size_t from = 0; // where to search
  while (from <= text.size()) {
    if (++clock.steps % 256 == 0 && std::chrono::steady_clock::now() > deadline)
      return matchError(PCRE2_ERROR_CALLOUT, from);
    int found = pcre2_match(
        program, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
        from == 0 ? 0 : PCRE2_NO_UTF_CHECK, matching.data, matching.context);
    if (found == PCRE2_ERROR_NOMATCH)
      break;
    if (found < 0)
      return matchError(found, from);
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(matching.data);
    size_t begin = ends[0], end = ends[1];
    if (begin < from || end < begin) // no \K, no lookbehind before `from`
      return matchError(PCRE2_ERROR_INTERNAL, from);
    if (begin > done)
      spans.push_back({done, begin, false});
    if (begin < end || begin > done)
      spans.push_back({begin, end, true});
    done = end;
    from = end;
    if (begin == end) // empty: the next search starts one character on
      for (++from; from < text.size() && (text[from] & 0xC0) == 0x80;)
        ++from;
  }
  if (done < text.size())
    spans.push_back({done, text.size(), false});
  return Status();
}

} // namespace cria
