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

size_t mutate(uint8_t *data, size_t size, size_t limit, unsigned seed,
              const Brackets &brackets) {
  if (seed % 4 != 0)
    return LLVMFuzzerMutate(data, size, limit);
  std::string changed = nest(textOf(data, size), brackets, limit, seed / 4);
  std::memcpy(data, changed.data(), std::min(changed.size(), limit));
  return std::min(changed.size(), limit);
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
