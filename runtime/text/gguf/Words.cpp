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
// DeepSeek LLM and V2 cut line breaks off, then letters with case, then
// punctuation with blanks before them, then the end's blanks, then characters
// of Asia. DeepSeek Coder knows all letters and all punctuation.
static constexpr char
    lineBreaks[] = R"([\r\n])",
    cased[] =
        R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽ)"
        R"(ᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ί)"
        R"(ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇ)"
        R"(Ꞌ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)",
    marks[] = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", lastBlanks[] = R"(\s+$)",
    asian[] = "[一-龥ࠀ-一가-\uD7FF]+", letters[] = R"(\s?\p{L}+)",
    allMarks[] = R"(\s?\p{P}+)";
// Kimi K2 has Chinese characters apart from other letters.
static constexpr char kimi[] =
    R"([\p{Han}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// MiniCPM 5 cuts numbers off as DeepSeek V3 does, then the rest.
static constexpr char minicpm5[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// No line breaks after the marks of Seed-Coder.
static constexpr char seedCoder[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen 2's words, but what is after an apostrophe is a word.
static constexpr char ufakzeka[] =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
// Words of Bloom and Viking end at blanks and at punctuation.
static constexpr char bloom[] = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
// Youtu-LLM has Korean, punctuation of Asia, Bopomofo, and Chinese and Japanese
// apart from the rest.
static constexpr char youtu[] = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-"
                                "ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+";
// Groups of three digits from the right: SuperBPE cuts numbers between groups.
// Tiny Aya cuts the groups of a number that ends a word off; what stands here
// for its \b lists the characters of words, as Oniguruma has them.
static constexpr char
    betweenThrees[] = R"((?=(\d{3})+(?!\d)))",
    threesToEnd[] =
        R"(\d{1,3}(?=(?:\d{3})*(?![\p{Alphabetic}\p{M}\p{Nd}\p{Pc}²³¹¼½¾])))";
// llama.cpp's own expressions, for files that name no model.
static constexpr char punctuation[] = R"([\p{P}\$\+<=>\^~\|]+)",
                      gpt2[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+|)"
                               R"( ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
                      numbers[] = R"(\p{N}+)", threes[] = "[0-9][0-9][0-9]";

static const std::vector<Words> &allWords() {
  static const std::vector<Words> all = {
      {"a.x-4.0 exaone4 gigachat gpt-2 granite-docling jais mellum phi-2 "
       "trillion",
       {},
       0},
      {"bloom gpt3-finnish poro-chat", {bloom}, 0},
      {"chatglm-bpe glm4 glm5", {llama3}, IgnoresMerges},
      {"codeshell mellum2 minerva-7b refact smollm starcoder",
       {},
       SingleDigits},
      {"cohere2moe tiny_aya", {threesToEnd, gpt4o}, 0},
      {"command-r", {}, SingleDigits | Composes},
      {"dbrx midm-2.0 smaug-bpe", {llama3}, 0},
      {"deepseek-coder", {lineBreaks, letters, allMarks, asian}, SingleDigits},
      {"deepseek-llm",
       {lineBreaks, cased, marks, lastBlanks, asian},
       SingleDigits},
      {"deepseek-r1-qwen f2llmv2 hunyuan megrez qwen2 stablelm2",
       {qwen2},
       Composes},
      {"deepseek-v3 hunyuan-dense joyai-llm", {upToThree, han, deepseek3}, 0},
      {"default", {punctuation, gpt2, numbers, threes}, 0},
      {"falcon-h1 falcon3 lfm2 llama-bpe llama-v3 llama3 pixtral",
       {llama3},
       IgnoresMerges | BeginsTexts},
      {"gpt-4o kanana2 llama4 minimax-m2", {gpt4o}, 0},
      {"grok-2 kormo solar-open", {qwen2}, 0},
      {"jais-2", {jais2}, 0},
      {"kimi-k2", {kimi}, IgnoresMerges},
      {"minicpm5", {upToThree, minicpm5}, IgnoresMerges},
      {"mpt olmo", {}, Composes},
      {"qwen35", {qwen35}, Composes},
      {"seed-coder", {seedCoder}, 0},
      {"superbpe", {numbers, betweenThrees}, 0},
      {"tekken", {tekken}, IgnoresMerges | BeginsTexts},
      {"ufakzeka", {ufakzeka}, 0},
      {"viking", {bloom}, SingleDigits},
      {"youtu", {youtu, gpt4o}, IgnoresMerges | SingleDigits},
  };
  return all;
}

json Words::normalizer() const {
  return has(Composes) ? json{{"type", "NFC"}} : json();
}

json Words::preTokenizer() const {
  json steps = json::array();
  for (const char *expression : expressions)
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", expression}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  if (has(SingleDigits))
    steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
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
