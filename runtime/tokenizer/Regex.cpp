/// A hostile expression can take exponential time, a hostile text quadratic
/// time with a careless one. PCRE2 limits how often it backtracks, but one step
/// may still read the whole text; so a callout before each item of the
/// expression looks at the clock as well.
///
/// That is slow, and nearly all matches are short. So each is first looked for
/// in the next kilobyte by machine code, which counts its steps: what runs into
/// the end of the kilobyte, as PCRE2's partial matching tells, or takes too
/// many steps, is left to the interpreter. The match is the same either way.
#include "runtime/tokenizer/Regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <new>

namespace cria {

/// What machine code sees of a text, and the steps it may take at each byte of
/// it: at worst, some seconds.
static constexpr size_t window = 1024;
static constexpr uint32_t fastSteps = 4096;

Effort::Effort(size_t bytes)
    : deadline(std::chrono::steady_clock::now() + std::chrono::seconds(2) +
               std::chrono::microseconds(20 * bytes)),
      match(pcre2_match_data_create(1, nullptr)),
      context(pcre2_match_context_create(nullptr)) {
  auto *limits = static_cast<pcre2_match_context *>(context);
  if (!match || !limits)
    return;
  pcre2_set_heap_limit(limits, 64 << 10); // KiB
  pcre2_set_callout(
      limits,
      [](pcre2_callout_block *, void *effort) {
        return static_cast<Effort *>(effort)->late() ? PCRE2_ERROR_CALLOUT : 0;
      },
      this);
}

Effort::~Effort() {
  pcre2_match_data_free(static_cast<pcre2_match_data *>(match));
  pcre2_match_context_free(static_cast<pcre2_match_context *>(context));
}

bool Effort::late() {
  return ++steps % 256 == 0 && std::chrono::steady_clock::now() > deadline;
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

/// The compiled expression; nullptr and a message where it is wrong.
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

Result<Regex> Regex::compile(std::string_view pattern) {
  Result<std::string> syntax = translate(pattern);
  if (!syntax.ok())
    return syntax.status();
  Regex regex;
  std::string message;
  regex.code = compileWith(*syntax, PCRE2_AUTO_CALLOUT, message);
  if (!regex.code)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the regular expression '" +
                      std::string(pattern.substr(0, 200)) +
                      "' is wrong: " + message);
  regex.fast = compileWith(*syntax, 0, message);
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

/// Where the next match at or after `from` lies is in the match data.
int Regex::match(std::string_view text, size_t from, Effort &effort) const {
  auto *data = static_cast<pcre2_match_data *>(effort.match);
  auto *context = static_cast<pcre2_match_context *>(effort.context);
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  if (fast) {
    size_t end = std::min(from + window, text.size());
    while (end < text.size() && (text[end] & 0xC0) == 0x80)
      ++end;
    bool whole = end == text.size();
    pcre2_set_match_limit(context, fastSteps);
    int found =
        pcre2_jit_match(static_cast<pcre2_code *>(fast.get()), subject, end,
                        from, whole ? 0 : PCRE2_PARTIAL_HARD, data, context);
    if (found >= 0 || (found == PCRE2_ERROR_NOMATCH && whole))
      return found;
  }
  pcre2_set_match_limit(context, UINT32_MAX);
  return pcre2_match(static_cast<pcre2_code *>(code.get()), subject,
                     text.size(), from, PCRE2_NO_UTF_CHECK, data, context);
}

Status Regex::find(std::string_view text, Effort &effort, SpanSink sink) const {
  if (!effort.match || !effort.context)
    return Status(CRIA_RESOURCE_EXHAUSTED, "out of memory");
  const PCRE2_SIZE *ends =
      pcre2_get_ovector_pointer(static_cast<pcre2_match_data *>(effort.match));
  Status status;
  size_t done = 0; // end of the last match
  size_t from = 0; // where to search
  while (from <= text.size()) {
    int found = effort.late() ? PCRE2_ERROR_CALLOUT : match(text, from, effort);
    if (found == PCRE2_ERROR_NOMATCH)
      break;
    if (found < 0)
      return matchError(found, from);
    size_t begin = ends[0], end = ends[1]; // `sink` may match, too
    if (begin < from || end < begin)       // no \K, no lookbehind before `from`
      return matchError(PCRE2_ERROR_INTERNAL, from);
    if (begin > done)
      status = sink({done, begin, false});
    if (status.ok() && (begin < end || begin > done))
      status = sink({begin, end, true});
    if (!status.ok())
      return status;
    done = end;
    from = end;
    if (begin == end) // empty: the next search starts one character on
      for (++from; from < text.size() && (text[from] & 0xC0) == 0x80;)
        ++from;
  }
  return done < text.size() ? sink({done, text.size(), false}) : Status();
}

} // namespace cria
