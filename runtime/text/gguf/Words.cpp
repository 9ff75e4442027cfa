#include "runtime/text/gguf/Words.h"

namespace cria::gguf {

using nlohmann::json;

// The expressions are from these models' tokenizer.json files.
static constexpr char llama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The blanks of Jais 2 are cut into runs of powers of two.
static constexpr char jais2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|)"
    R"(\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|)"
    R"(\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
static constexpr char qwen2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Words may have marks.
static constexpr char qwen35[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
static constexpr char tekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?)"
    R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
static constexpr char gpt4o[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// DeepSeek V3 cuts numbers off, then Chinese and Japanese, then the rest.
static constexpr char upToThree[] = R"(\p{N}{1,3})",
                      han[] = "[一-龥぀-ゟ゠-ヿ]+",
                      deepseek3[] =
                          R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
                          R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
                          R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|)"
                          R"(\s+(?!\S)|\s+)";
// llama.cpp's own expressions, for files that name no model.
static constexpr char punctuation[] = R"([\p{P}\$\+<=>\^~\|]+)",
                      gpt2[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+|)"
                               R"( ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
                      numbers[] = R"(\p{N}+)", threes[] = "[0-9][0-9][0-9]";

static const std::vector<Words> &allWords() {
  static const std::vector<Words> all = {
      {"chatglm-bpe dbrx glm4 smaug-bpe", {llama3}, false, false, false, false},
      {"command-r", {}, true, true, false, false},
      {"deepseek-r1-qwen hunyuan megrez qwen2 stablelm2",
       {qwen2},
       false,
       true,
       false,
       false},
      {"deepseek-v3 hunyuan-dense",
       {upToThree, han, deepseek3},
       false,
       false,
       false,
       false},
      {"default",
       {punctuation, gpt2, numbers, threes},
       false,
       false,
       false,
       false},
      {"exaone4 gpt-2 phi-2", {}, false, false, false, false},
      {"gpt-4o minimax-m2", {gpt4o}, false, false, false, false},
      {"jais-2", {jais2}, false, false, false, false},
      {"lfm2 llama-bpe llama-v3 llama3", {llama3}, false, false, true, true},
      {"olmo", {}, false, true, false, false},
      {"qwen35", {qwen35}, false, true, false, false},
      {"refact smollm starcoder", {}, true, false, false, false},
      {"tekken", {tekken}, false, false, true, true},
  };
  return all;
}

json Words::normalizer() const {
  return composes ? json{{"type", "NFC"}} : json();
}

json Words::preTokenizer() const {
  json steps = json::array();
  if (singleDigits)
    steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  for (const char *expression : expressions)
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", expression}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"use_regex", expressions.empty()}});
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

const Words *readWords(TextReader &reader) {
  std::string name = reader.text("tokenizer.ggml.pre", ""), names;
  for (const Words &words : allWords()) {
    names += (names.empty() ? "" : " ") + std::string(words.names);
    if (!name.empty() && name.find(' ') == name.npos &&
        (" " + std::string(words.names) + " ").find(" " + name + " ") !=
            std::string::npos)
      return &words;
  }
  reader.expected("tokenizer.ggml.pre", "one of " + names, CRIA_UNIMPLEMENTED);
  return nullptr;
}

} // namespace cria::gguf
