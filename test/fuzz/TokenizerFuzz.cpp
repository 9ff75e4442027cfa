/// tokenizer.json; an accepted tokenizer then encodes and decodes.
///
/// Random bytes do not nest. So an input is either a document, or it chooses
/// one: components of all kinds, in sequences inside sequences, repeated, with
/// texts and expressions that grow, backtrack and overlap; and a text that
/// repeats a few characters.
#include "runtime/text/tokenizer/Tokenizer.h"
#include "test/fuzz/Fuzz.h"

#include <nlohmann/json.hpp>

#include <vector>

using namespace cria;
using nlohmann::json;

namespace {

/// Makes choices by the bytes of the input, all zero after its end.
class Choices {
public:
  explicit Choices(std::string_view bytes) : bytes(bytes) {}

  size_t below(size_t limit) {
    size_t byte = at < bytes.size() ? static_cast<uint8_t>(bytes[at++]) : 0;
    return byte % limit;
  }
  bool flag() { return below(2) == 1; }
  template <typename T> const T &of(const std::vector<T> &all) {
    return all[below(all.size())];
  }

private:
  std::string_view bytes;
  size_t at = 0;
};

/// The name of a sequence's list, and what makes one of its components.
struct Kind {
  const char *list;
  json (*make)(Choices &);
};

} // namespace

static std::string times(const std::string &part, size_t count) {
  std::string all;
  while (count-- > 0)
    all += part;
  return all;
}

static const std::vector<size_t> counts = {0, 1, 2, 3, 8, 40, 63, 64, 1000};

/// Some characters, often repeated.
static std::string makeText(Choices &choices, size_t longest) {
  static const std::vector<std::string> parts = {
      "a",   "b",      "aa",     "ab",           " ",     "  ",     "<s>",
      "<A>", "A",      "\u00e9", "e\u0301",      "1",     "\u2581", "\n",
      "##a", "<0x41>", "!",      "\u4f60\u597d", "\ufb03"};
  std::string text;
  for (size_t pieces = choices.below(6); pieces > 0; --pieces)
    text += times(choices.of(parts), choices.of(counts));
  text.resize(std::min(text.size(), longest));
  while (!text.empty() && (text.back() & 0x80)) // maybe a cut character
    text.pop_back();
  return text;
}

static json makePattern(Choices &choices) {
  static const std::vector<std::string> parts = {
      "a",      "a?",      "a*",          "a+?",      "(?:a|aa)", "(a|ab)+",
      "[^\\s]", "\\p{L}+", "(?i:'s|a)",   "(?=a)",    "(?!b)",    "a{2,40}",
      "|",      " ?",      "\\s+(?!\\S)", "(?>a*|b)", "[bc]",     "(?<=a)"};
  if (choices.flag())
    return {{"String", makeText(choices, 1 << 20)}};
  std::string expression;
  for (size_t pieces = choices.below(6); pieces > 0; --pieces)
    expression += times(choices.of(parts), choices.of(counts));
  return {{"Regex", expression}};
}

static json makeNormalizer(Choices &choices) {
  static const std::vector<std::string> plain = {
      "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"};
  switch (choices.below(5)) {
  case 0:
    return {{"type", "Prepend"}, {"prepend", makeText(choices, 256)}};
  case 1:
    return {{"type", "Replace"},
            {"pattern", makePattern(choices)},
            {"content", makeText(choices, 256)}};
  case 2:
    return {{"type", "Strip"},
            {"strip_left", choices.flag()},
            {"strip_right", choices.flag()}};
  case 3:
    return {{"type", "BertNormalizer"},
            {"clean_text", choices.flag()},
            {"handle_chinese_chars", choices.flag()},
            {"lowercase", choices.flag()}};
  default:
    return {{"type", choices.of(plain)}};
  }
}

static json makePreTokenizer(Choices &choices) {
  static const std::vector<std::string> plain = {
      "Whitespace", "WhitespaceSplit", "BertPreTokenizer"};
  static const std::vector<std::string> behaviors = {
      "Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
      "Contiguous"};
  static const std::vector<std::string> schemes = {"always", "first", "never"};
  switch (choices.below(5)) {
  case 0:
    return {{"type", "Split"},
            {"pattern", makePattern(choices)},
            {"behavior", choices.of(behaviors)},
            {"invert", choices.flag()}};
  case 1:
    return {{"type", "ByteLevel"},
            {"add_prefix_space", choices.flag()},
            {"trim_offsets", true},
            {"use_regex", choices.flag()}};
  case 2:
    return {{"type", "Metaspace"},
            {"replacement", "\u2581"},
            {"prepend_scheme", choices.of(schemes)},
            {"split", choices.flag()}};
  case 3:
    return {{"type", "Digits"}, {"individual_digits", choices.flag()}};
  default:
    return {{"type", choices.of(plain)}};
  }
}

static json makeDecoder(Choices &choices) {
  static const std::vector<std::string> plain = {"ByteFallback", "Fuse",
                                                 "ByteLevel"};
  switch (choices.below(5)) {
  case 0:
    return {{"type", "Replace"},
            {"pattern", {{"String", makeText(choices, 1000)}}},
            {"content", makeText(choices, 256)}};
  case 1:
    return {{"type", "Strip"}, {"content", " "}, {"start", 1000}, {"stop", 0}};
  case 2:
    return {{"type", "Metaspace"}, {"replacement", "\u2581"}};
  case 3:
    return {
        {"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", choices.flag()}};
  default:
    return {{"type", choices.of(plain)}};
  }
}

static json makeProcessor(Choices &choices) {
  if (choices.flag())
    return {{"type", "BertProcessing"}, {"sep", {"a", 0}}, {"cls", {"b", 1}}};
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true}};
}

/// A component, or a sequence of some, maybe one of them many times over.
static json makeTree(Choices &choices, const Kind &kind, size_t depth) {
  if (depth == 0 || choices.below(3) == 0)
    return kind.make(choices);
  json list = json::array();
  for (size_t parts = choices.below(4); parts > 0; --parts) {
    json part = makeTree(choices, kind, depth - 1);
    // Some thousand nodes at most, as those inside are repeated, too.
    size_t copies = depth < 3 ? choices.of(counts) : 1;
    for (; copies > 0 && list.size() < 64; --copies)
      list.push_back(part);
  }
  return {{"type", "Sequence"}, {kind.list, std::move(list)}};
}

static json makeModel(Choices &choices) {
  std::string longest = times("a", 1 + choices.of(counts) * 8);
  switch (choices.below(3)) {
  case 0:
    return {
        {"type", "Unigram"},
        {"unk_id", 2},
        {"vocab", json::array({json::array({"a", -1}), json::array({"b", -1}),
                               json::array({"<u>", 0}),
                               json::array({longest + "b", -9})})}};
  case 1:
    return {{"type", "WordPiece"},
            {"unk_token", "<u>"},
            {"continuing_subword_prefix", ""},
            {"max_input_chars_per_word", 1'000'000},
            {"vocab", {{"a", 0}, {"b", 1}, {"<u>", 2}, {longest + "b", 3}}}};
  default:
    return {{"type", "BPE"},
            {"unk_token", "<u>"},
            {"fuse_unk", choices.flag()},
            {"vocab", {{"a", 0}, {"b", 1}, {"<u>", 2}, {"ab", 3}}},
            {"merges", json::array({"a b"})}};
  }
}

static json makeAddedTokens(Choices &choices) {
  json list = json::array();
  size_t count = choices.below(6), copies = choices.of(counts);
  for (size_t i = 0; i < count * std::max<size_t>(copies, 1); ++i) {
    std::string content =
        i < count ? makeText(choices, 250) : "<" + std::to_string(i) + ">";
    list.push_back({{"id", 4 + list.size()},
                    {"content", content + "."},
                    {"single_word", choices.flag()},
                    {"lstrip", choices.flag()},
                    {"rstrip", choices.flag()},
                    {"normalized", choices.flag()},
                    {"special", choices.flag()}});
  }
  return list;
}

static std::string makeDocument(Choices &choices) {
  static const std::pair<const char *, Kind> members[] = {
      {"normalizer", {"normalizers", makeNormalizer}},
      {"pre_tokenizer", {"pretokenizers", makePreTokenizer}},
      {"decoder", {"decoders", makeDecoder}},
      {"post_processor", {"processors", makeProcessor}}};
  json document = {{"model", makeModel(choices)}};
  for (const auto &[name, kind] : members)
    if (choices.flag())
      document[name] = makeTree(choices, kind, choices.below(30));
  document["added_tokens"] = makeAddedTokens(choices);
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

static void tryText(const Tokenizer &tokenizer, const std::string &text) {
  for (bool parseSpecial : {true, false})
    if (auto ids = tokenizer.encode(text, true, parseSpecial); ids.ok())
      (void)tokenizer.decode(*ids, true).ok();
  std::string origins; // runs of up to five characters
  for (size_t i = 0, characters = 0; i < text.size(); ++i) {
    characters += (text[i] & 0xC0) != 0x80;
    origins += static_cast<char>(characters * characters / 5 % 3);
  }
  (void)tokenizer.encodeBy(text, origins).ok();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view input = fuzz::textOf(data, size);
  Choices choices(input);
  bool given = !input.empty() && input[0] == '{';
  auto tokenizer = Tokenizer::parse(
      given ? std::string(input) : makeDocument(choices), "t.json");
  if (!tokenizer.ok())
    return 0;
  for (std::string text : {"Hello, world 12345", "a\u0301 \u4f60\U0001f600<s>"})
    tryText(*tokenizer, text);
  if (!given)
    tryText(*tokenizer, makeText(choices, 1 << 16));
  return 0;
}
