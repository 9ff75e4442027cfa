// Any bytes as PTX give an error or a program, never a crash.
#include "test/emulator/Device.h"
#include "test/emulator/PlantedKernels.h"

#include <random>

namespace cria::emulator {
namespace {

using Random = std::mt19937_64;

/// The place and length of a line, a word or a character.
std::pair<size_t, size_t> piece(const std::string &text, Random &random) {
  if (text.empty())
    return {0, 0};
  size_t at = random() % text.size();
  const char *ends[] = {"\n", " ,;[]{}\n", ""};
  const char *end = ends[random() % 3];
  if (!*end)
    return {at, 1};
  size_t begin = text.find_last_of(end, at);
  begin = begin == std::string::npos ? 0 : begin + 1;
  size_t stop = std::min(text.find_first_of(end, begin), text.size());
  return {begin, stop - begin};
}

/// Changes one thing.
void mutate(std::string &text, Random &random) {
  auto [at, length] = piece(text, random);
  auto [from, fromLength] = piece(text, random);
  switch (random() % 6) {
  case 0: // leave it out
    text.erase(at, length);
    break;
  case 1: // put something else of the text in its place
    text.replace(at, length, text.substr(from, fromLength));
    break;
  case 2: // twice
    text.insert(at, text.substr(from, fromLength));
    break;
  case 3:
    text.insert(at, 1, char(random()));
    break;
  case 4: {
    const char *words[] = {
        "{",       "}",      "[",   "]",           ";",     "(",     "_",
        "-1",      "%r1",    "0x",  "99999999999", ".v4",   ".b128", "|",
        ".shared", "%tid.x", "bra", "call k",      ".func", "0f",    "WARP_SZ",
        "@%q",     ".pred",  "!",   "mov.b128",    ".align"};
    text.replace(at, length, words[random() % std::size(words)]);
    break;
  }
  default:
    text.resize(at);
  }
}

TEST(Fuzz, TenThousandMutatedTexts) {
  TestDevice device(90);
  device.options.optimization = 0;
  std::vector<PlantedKernel> kernels = plantedKernels();
  Random random(7);
  int loaded = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string text = kernels[random() % kernels.size()].ptx;
    for (uint64_t n = 1 + random() % 3; n > 0; --n)
      mutate(text, random);
    if (device.load(text) != "")
      continue;
    // What translates must also compile; not each, for time.
    for (auto &[name, kernel] : device.program->allKernels())
      if (++loaded % 50 == 0) {
        auto error = device.program->compile(*device.program->find(name));
        EXPECT_FALSE(error) << error->message << "\n" << text;
      }
  }
  EXPECT_GT(loaded, 500);
}

TEST(Fuzz, OddTexts) {
  TestDevice device;
  for (const char *text :
       {"", ";", ".version", ".version 8.0", ".version 99.0\n.target sm_80",
        ".version 8.0\n.target sm_80\n.visible .entry", "\xff\xfe\x00",
        ".version 8.0\n.target x", "/*", "\"", ".version 8.0\n.section {"})
    device.load(text);
  std::string deep = ".version 8.0\n.target sm_80\n.entry k()\n{\nmov.b32 ";
  EXPECT_NE(device.load(deep + std::string(100000, '{')), "");
  EXPECT_NE(device.load(deep + std::string(100000, '-') + "1;\n}"), "");
  std::string scopes = ".version 8.0\n.target sm_80\n.entry k()\n";
  EXPECT_EQ(device.load(scopes + std::string(1000, '{') + "ret;" +
                        std::string(1000, '}')),
            "");
}

} // namespace
} // namespace cria::emulator
