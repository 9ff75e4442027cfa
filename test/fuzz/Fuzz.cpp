#include "test/fuzz/Fuzz.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit);

namespace cria::fuzz {

static std::string repeat(std::string_view text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i)
    result += text;
  return result;
}

std::string nest(std::string_view text, const Brackets &brackets, size_t limit,
                 unsigned seed) {
  std::minstd_rand random(seed);
  auto below = [&](size_t bound) { return random() % bound; };
  size_t begin = below(text.size() + 1);
  size_t size = below(text.size() - begin + 1);
  std::string_view part = text.substr(begin, size);
  auto [open, close] = brackets[below(brackets.size())];
  bool wraps = part.empty() || below(2);
  size_t each = wraps ? open.size() + close.size() : part.size();
  size_t room = limit > text.size() ? (limit - text.size()) / each : 0;
  size_t count = std::min(room, size_t{1} << below(15));
  // Every third time, what is opened stays open.
  std::string middle =
      wraps ? repeat(open, count).append(part) +
                  (below(3) ? repeat(close, count) : std::string())
            : repeat(part, count + 1);
  return std::string(text.substr(0, begin))
      .append(middle)
      .append(text.substr(begin + size));
}

std::string generate(const Grammar &grammar, std::string_view name,
                     size_t limit, unsigned seed) {
  std::minstd_rand random(seed);
  std::string text;
  std::vector<std::string_view> pending; // the next one last
  auto expand = [&](std::string_view what) {
    const auto &choices = grammar.at(what);
    bool ends = text.size() + 8 * pending.size() > limit;
    pending.push_back(choices[ends ? 0 : random() % choices.size()]);
  };
  expand(name);
  while (!pending.empty()) {
    std::string_view next = pending.back();
    pending.pop_back();
    size_t open = next.find('@');
    text += next.substr(0, open);
    if (open == next.npos)
      continue;
    size_t close = next.find('@', open + 1);
    pending.push_back(next.substr(close + 1));
    expand(next.substr(open + 1, close - open - 1));
  }
  return text;
}

std::string change(std::string_view text, const Language &language,
                   size_t limit, unsigned seed) {
  std::minstd_rand random(seed);
  if (language.parts.empty() || random() % 2)
    return nest(text, language.brackets, limit, random());
  size_t begin = random() % (text.size() + 1);
  size_t size = random() % (std::min<size_t>(text.size() - begin, 64) + 1);
  std::string_view part = language.parts[random() % language.parts.size()];
  size_t room = limit > text.size() ? limit - text.size() : 0;
  std::string changed(text.substr(0, begin));
  changed += generate(language.grammar, part, random() % (room + 1), random());
  return changed.append(text.substr(begin + size));
}

const Language &json() {
  static const Language language = {
      {{"[", "]"}, {"{\"a\":", "}"}, {"[0,", "]"}, {"{\"\":0,\"a\":", "}"}},
      {{"value",
        {"0", "[@list@]", "{@members@}", "\"@text@\"", "@number@", "null",
         "true"}},
       {"list", {"@value@", "@value@,@list@", ""}},
       {"members", {"\"k\":@value@", "\"@text@\":@value@,@members@", ""}},
       {"text", {"a", "@text@@text@", "\\u0000", "\\ud83d\\ude00", ""}},
       {"number",
        {"1", "-1", "0.5", "1e308", "-0", "18446744073709551615",
         "-9223372036854775809", "1@digits@"}},
       {"digits", {"0", "9@digits@"}}},
      {"value", "members", "list"}};
  return language;
}

size_t mutate(uint8_t *data, size_t size, size_t limit, unsigned seed,
              const Language &language) {
  if (seed % 3 != 0)
    return LLVMFuzzerMutate(data, size, limit);
  std::string changed = change(textOf(data, size), language, limit, seed / 3);
  std::memcpy(data, changed.data(), std::min(changed.size(), limit));
  return std::min(changed.size(), limit);
}

size_t mutate(uint8_t *data, size_t size, size_t limit, unsigned seed,
              const Brackets &brackets) {
  return mutate(data, size, limit, seed, Language{brackets, {}, {}});
}

Folder::Folder() {
  char name[] = "/dev/shm/cria-fuzz-XXXXXX";
  require(mkdtemp(name), "mkdtemp");
  folder = name;
}

Folder::~Folder() { std::filesystem::remove_all(folder); }

std::string Folder::write(const std::string &name,
                          std::string_view bytes) const {
  std::string file = folder + "/" + name;
  std::ofstream stream(file, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file;
}

void require(bool holds, const char *what) {
  if (holds)
    return;
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

} // namespace cria::fuzz
