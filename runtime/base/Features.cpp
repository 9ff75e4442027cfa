#include "runtime/base/Features.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__AARCH64EL__)
#include <sys/auxv.h>
#endif

namespace cria {

static bool isTileFeature(const std::string &name) {
  return name.rfind("amx", 0) == 0;
}

#if defined(__x86_64__)

namespace {

enum Register : uint8_t { EAX, EBX, ECX, EDX };

/// Register state that the system must save, as bits of XCR0.
enum : uint32_t { None = 0, Ymm = 0x6, Zmm = 0xe6, Tiles = 0x60000 };

/// The bit of CPUID that reports a feature.
struct Feature {
  char name[16]; // LLVM's; no pointer, which would be relocated
  uint32_t leaf;
  uint8_t subleaf;
  Register where;
  uint8_t bit;
  uint32_t state;
};

} // namespace

// Intel SDM volume 2, CPUID; AMD APM volume 3, appendix E. The names are those
// of LLVM's X86 target, for what lowering/cpu/Target.cpp lets code use.
static const Feature features[] = {
    {"sse3", 1, 0, ECX, 0, None},
    {"ssse3", 1, 0, ECX, 9, None},
    {"fma", 1, 0, ECX, 12, Ymm},
    {"sse4.1", 1, 0, ECX, 19, None},
    {"sse4.2", 1, 0, ECX, 20, None},
    {"movbe", 1, 0, ECX, 22, None},
    {"popcnt", 1, 0, ECX, 23, None},
    {"avx", 1, 0, ECX, 28, Ymm},
    {"f16c", 1, 0, ECX, 29, Ymm},
    {"bmi", 7, 0, EBX, 3, None},
    {"avx2", 7, 0, EBX, 5, Ymm},
    {"bmi2", 7, 0, EBX, 8, None},
    {"avx512f", 7, 0, EBX, 16, Zmm},
    {"avx512dq", 7, 0, EBX, 17, Zmm},
    {"avx512ifma", 7, 0, EBX, 21, Zmm},
    {"avx512cd", 7, 0, EBX, 28, Zmm},
    {"avx512bw", 7, 0, EBX, 30, Zmm},
    {"avx512vl", 7, 0, EBX, 31, Zmm},
    {"avx512vbmi", 7, 0, ECX, 1, Zmm},
    {"avx512vbmi2", 7, 0, ECX, 6, Zmm},
    {"avx512vnni", 7, 0, ECX, 11, Zmm},
    {"avx512bitalg", 7, 0, ECX, 12, Zmm},
    {"avx512vpopcntdq", 7, 0, ECX, 14, Zmm},
    {"amx-bf16", 7, 0, EDX, 22, Tiles},
    {"avx512fp16", 7, 0, EDX, 23, Zmm},
    {"amx-tile", 7, 0, EDX, 24, Tiles},
    {"amx-int8", 7, 0, EDX, 25, Tiles},
    {"avxvnni", 7, 1, EAX, 4, Ymm},
    {"avx512bf16", 7, 1, EAX, 5, Zmm},
    {"lzcnt", 0x80000001, 0, ECX, 5, None},
};

/// The register state that the operating system saves.
static uint64_t savedState() {
  uint32_t eax, ebx, ecx, edx;
  constexpr uint32_t osxsave = 1u << 27;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & osxsave))
    return 0;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

static bool isThere(const Feature &feature) {
  uint32_t registers[4] = {};
  return __get_cpuid_count(feature.leaf, feature.subleaf, &registers[EAX],
                           &registers[EBX], &registers[ECX], &registers[EDX]) &&
         registers[feature.where] >> feature.bit & 1 &&
         (savedState() & feature.state) == feature.state;
}

const char *hostArch() { return "x86_64"; }

bool permitTiles(const std::vector<std::string> &needed) {
  constexpr long requestPermission = 0x1023; // ARCH_REQ_XCOMP_PERM
  constexpr long tileData = 18;              // XFEATURE_XTILEDATA
  return std::none_of(needed.begin(), needed.end(), isTileFeature) ||
         syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}

#else

namespace {
/// The bits of the auxiliary vector that report a feature.
struct Feature {
  char name[12]; // LLVM's; no pointer, which would be relocated
  uint32_t entry;
  uint64_t bits;
};
} // namespace

#if defined(__AARCH64EL__)

static const Feature features[] = {
    {"neon", AT_HWCAP, HWCAP_ASIMD},
    {"dotprod", AT_HWCAP, HWCAP_ASIMDDP},
    {"fullfp16", AT_HWCAP, HWCAP_FPHP | HWCAP_ASIMDHP},
    {"i8mm", AT_HWCAP2, HWCAP2_I8MM},
    {"bf16", AT_HWCAP2, HWCAP2_BF16},
};

static bool isThere(const Feature &feature) {
  return (getauxval(feature.entry) & feature.bits) == feature.bits;
}

const char *hostArch() { return "aarch64"; }

#else

static const Feature features[] = {{"", 0, 0}};

static bool isThere(const Feature &) { return false; }

const char *hostArch() { return "unknown"; }

#endif

bool permitTiles(const std::vector<std::string> &needed) {
  return std::none_of(needed.begin(), needed.end(), isTileFeature);
}

#endif

std::vector<std::string>
missingCpuFeatures(const std::vector<std::string> &needed) {
  std::vector<std::string> missing;
  for (const std::string &name : needed) {
    auto known = [&](const Feature &feature) { return name == feature.name; };
    auto feature =
        std::find_if(std::begin(features), std::end(features), known);
    if (feature == std::end(features) || !isThere(*feature))
      missing.push_back(name);
  }
  return missing;
}

std::string cpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0)
      if (size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown";
}

} // namespace cria
