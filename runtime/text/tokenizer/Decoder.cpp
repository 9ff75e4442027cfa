#include "runtime/text/tokenizer/Decoder.h"

#include "runtime/text/tokenizer/Text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace cria {

using Kind = DecoderStep::Kind;

static std::string readCharacter(const JsonCursor &place) {
  std::string text = place.string();
  if (text.empty() || characterLength(text, 0) != text.size())
    place.expected("one character");
  return text.empty() ? " " : text;
}

static DecoderStep readReplace(const JsonCursor &decoder) {
  onlyKeys(decoder, {"type", "pattern", "content"});
  DecoderStep step{Kind::Replace, "", decoder["content"].string()};
  onlyKeys(decoder["pattern"], {"String"});
  step.pattern = decoder["pattern"]["String"].string();
  if (step.pattern.empty())
    decoder["pattern"].expected("a text");
  if (step.content.size() > 256)
    decoder["content"].expected("at most 256 bytes");
  return step;
}

static DecoderStep readStrip(const JsonCursor &decoder) {
  onlyKeys(decoder, {"type", "content", "start", "stop"});
  DecoderStep step{Kind::Strip, readCharacter(decoder["content"]), ""};
  step.count = decoder["start"].integer(0, INT32_MAX);
  if (decoder["stop"].integer(0, INT32_MAX) != 0)
    refuse(decoder["stop"], "0");
  return step;
}

static DecoderStep readMetaspace(const JsonCursor &decoder) {
  onlyKeys(decoder, {"type", "replacement", "add_prefix_space",
                     "prepend_scheme", "split", "str_rep"});
  DecoderStep step{Kind::Metaspace, readCharacter(decoder["replacement"]), ""};
  auto add = decoder.find("add_prefix_space");
  auto scheme = decoder.find("prepend_scheme");
  step.prefix =
      !(add && !add->boolean()) && !(scheme && scheme->string() == "never");
  return step;
}

static DecoderStep readWordPiece(const JsonCursor &decoder) {
  onlyKeys(decoder, {"type", "prefix", "cleanup"});
  DecoderStep step{Kind::WordPiece, decoder["prefix"].string(), ""};
  step.tidy = decoder["cleanup"].boolean();
  return step;
}

static void append(const JsonCursor &decoder, DecoderStep step,
                   std::vector<DecoderStep> &steps) {
  bool whole = step.kind == Kind::Fuse || step.kind == Kind::Strip;
  step.fused = !steps.empty() &&
               (steps.back().fused || steps.back().kind == Kind::Fuse ||
                steps.back().kind == Kind::ByteLevel);
  if (step.fused && !whole)
    refuse(decoder["type"], "this step before Fuse or ByteLevel");
  steps.push_back(std::move(step));
}

void readDecoder(const JsonCursor &decoder, ComponentCount &count,
                 std::vector<DecoderStep> &steps) {
  if (!count.add(decoder))
    return;
  std::string type = decoder["type"].string();
  if (type == "Sequence") {
    onlyKeys(decoder, {"type", "decoders"});
    for (const JsonCursor &one : decoder["decoders"].elements(64))
      readDecoder(one, count, steps);
  } else if (type == "Replace") {
    append(decoder, readReplace(decoder), steps);
  } else if (type == "Strip") {
    append(decoder, readStrip(decoder), steps);
  } else if (type == "Metaspace") {
    append(decoder, readMetaspace(decoder), steps);
  } else if (type == "WordPiece") {
    append(decoder, readWordPiece(decoder), steps);
  } else if (type == "ByteFallback" || type == "Fuse") {
    onlyKeys(decoder, {"type"});
    Kind kind = type == "Fuse" ? Kind::Fuse : Kind::ByteFallback;
    append(decoder, {kind, "", ""}, steps);
  } else if (type == "ByteLevel") {
    onlyKeys(decoder,
             {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    append(decoder, {Kind::ByteLevel, "", ""}, steps);
  } else {
    refuse(decoder["type"],
           "one of ByteLevel, Metaspace, WordPiece, Replace, ByteFallback, "
           "Fuse, Strip and Sequence");
  }
}

DecoderState::DecoderState(const std::vector<DecoderStep> &steps)
    : steps(&steps), states(steps.size()) {}

Result<std::string> DecoderState::push(std::string token) {
  effort.addToken();
  return run({std::move(token)}, false);
}

Result<std::string> DecoderState::finish() {
  Result<std::string> rest = run({}, true);
  states.assign(steps->size(), {});
  return rest;
}

/// The cost of a token in each step, and of each of its bytes, in units of
/// effort. It is more than their time, to bound the memory as well.
static constexpr uint64_t workPerToken = 32, workPerByte = 16;

static std::string replaceAll(const std::string &text,
                              const std::string &pattern,
                              std::string_view content, Effort &effort) {
  std::string result;
  size_t done = 0;
  for (size_t at; (at = findText(text, pattern, done)) != text.npos &&
                  effort.spend(workPerByte * (content.size() + 1));
       done = at + pattern.size())
    result.append(text, done, at - done).append(content);
  return result.append(text, done);
}

/// WordPiece's cleanup: removes the space before marks and endings like "n't",
/// and replaces "do not" by "don't".
static std::string tidy(std::string token, Effort &effort) {
  auto replace = [&](const char *pattern, const char *content) {
    token = replaceAll(token, pattern, content, effort);
  };
  for (const char *mark : {" .", " ?", " !", " ,"})
    replace(mark, mark + 1);
  replace(" ' ", "'");
  for (const char *ending : {" n't", " 'm"})
    replace(ending, ending + 1);
  replace(" do not", " don't");
  for (const char *ending : {" 's", " 've", " 're"})
    replace(ending, ending + 1);
  return token;
}

static std::string joinPiece(const DecoderStep &step, std::string token,
                             bool first, Effort &effort) {
  if (!first && token.compare(0, step.pattern.size(), step.pattern) == 0)
    token.erase(0, step.pattern.size());
  else if (!first)
    token.insert(0, " ");
  return step.tidy ? tidy(std::move(token), effort) : token;
}

static int hexDigit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/// The byte that a token "<0xE5>" stands for, or -1.
static int byteOfToken(const std::string &token) {
  if (token.size() != 6 || token.compare(0, 3, "<0x") != 0 || token[5] != '>')
    return -1;
  int high = hexDigit(token[3]), low = hexDigit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static bool has(const std::vector<DecoderStep> &steps, Kind kind) {
  return std::any_of(steps.begin(), steps.end(), [&](const DecoderStep &step) {
    return step.kind == kind;
  });
}

bool spellsBytes(const std::vector<DecoderStep> &steps) {
  return has(steps, Kind::ByteLevel);
}

Result<std::string> bytesOfToken(const std::vector<DecoderStep> &steps,
                                 const std::string &token) {
  if (int byte = byteOfToken(token);
      byte >= 0 && has(steps, Kind::ByteFallback))
    return std::string(1, static_cast<char>(byte));
  if (spellsBytes(steps))
    return unspellBytes(token);
  DecoderState state(steps); // only the first token of a text is another's
  Result<std::string> begun = state.push("a"), text = state.push(token);
  return begun.ok() ? text : begun;
}

/// Returns the text of a run of byte tokens and ends the run.
static std::string takeRun(std::string &pending) {
  std::string run = std::exchange(pending, "");
  if (findInvalidUtf8(run) == run.npos)
    return run;
  std::string marks;
  for (size_t i = 0; i < run.size(); ++i)
    marks += "\uFFFD";
  return marks;
}

void DecoderState::strip(const DecoderStep &step, StepState &state,
                         std::string &token) {
  if (!step.fused) { // each token has a start
    state.stripped = 0;
    state.stripping = true;
  }
  size_t at = 0;
  while (state.stripping && at < token.size() && state.stripped < step.count &&
         token.compare(at, step.pattern.size(), step.pattern) == 0) {
    at += step.pattern.size();
    ++state.stripped;
  }
  state.stripping &= at == token.size();
  token.erase(0, at);
}

void DecoderState::apply(size_t index, std::string token, Tokens &out) {
  const DecoderStep &step = (*steps)[index];
  StepState &state = states[index];
  bool first = state.tokens++ == 0;
  switch (step.kind) {
  case Kind::Replace:
    token = replaceAll(token, step.pattern, step.content, effort);
    break;
  case Kind::ByteFallback:
    if (int byte = byteOfToken(token); byte >= 0) {
      state.pending += static_cast<char>(byte);
      return;
    }
    if (!state.pending.empty())
      out.push_back(takeRun(state.pending));
    break;
  case Kind::Fuse:
    break;
  case Kind::Strip:
    strip(step, state, token);
    break;
  case Kind::ByteLevel:
    state.pending += unspellBytes(token);
    token = takeUtf8(state.pending, false);
    break;
  case Kind::Metaspace:
    token = replaceAll(token, step.pattern, first && step.prefix ? "" : " ",
                       effort);
    break;
  case Kind::Join:
    if (!first)
      token.insert(0, " ");
    break;
  case Kind::WordPiece:
    token = joinPiece(step, std::move(token), first, effort);
    break;
  }
  out.push_back(std::move(token));
}

Result<std::string> DecoderState::run(Tokens tokens, bool last) {
  for (size_t i = 0; i < steps->size(); ++i) {
    Tokens out;
    for (std::string &token : tokens) {
      if (!effort.spend(workPerToken + workPerByte * token.size()))
        return Effort::tooLong("decoding a token");
      apply(i, std::move(token), out);
    }
    if (last && !states[i].pending.empty())
      out.push_back((*steps)[i].kind == Kind::ByteFallback
                        ? takeRun(states[i].pending)
                        : takeUtf8(states[i].pending, true));
    tokens = std::move(out);
  }
  std::string text;
  for (const std::string &token : tokens)
    text += token;
  return text;
}

} // namespace cria
