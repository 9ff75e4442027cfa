#include "tools/emulator/driver/Settings.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace cria::emulator {
namespace {

constexpr const char *kVariables[] = {
    "CRIA_EMULATOR_DEVICE",       "CRIA_EMULATOR_DEVICES",
    "CRIA_EMULATOR_MEMORY",       "CRIA_EMULATOR_CHECKS",
    "CRIA_EMULATOR_SEED",         "CRIA_EMULATOR_THREADS",
    "CRIA_EMULATOR_OPTIMIZATION", "CRIA_EMULATOR_TIME_LIMIT",
    "CRIA_EMULATOR_COUNT",        "CRIA_EMULATOR_REPORT",
    "CRIA_EMULATOR_FAULTS",       "CRIA_EMULATOR_DRIVER_VERSION",
    "CRIA_EMULATOR_CACHE",        "CUDA_VISIBLE_DEVICES"};

llvm::StringRef variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

void complain(const char *name, llvm::StringRef value, const char *expected) {
  fprintf(stderr, "cria-emulator: warning: %s=%s is ignored, expected %s\n",
          name, value.str().c_str(), expected);
}

/// Reads only decimal digits; refuses 010, which is octal elsewhere.
template <typename T> bool readDecimal(llvm::StringRef text, T &to) {
  bool isOctal = text.size() > 1 && text.front() == '0';
  return !isOctal && !text.getAsInteger(10, to);
}

/// Sets `to` from a variable that is a decimal number in [low, high].
template <typename T>
void readNumber(const char *name, T &to, uint64_t low, uint64_t high) {
  llvm::StringRef text = variable(name);
  uint64_t value;
  if (text.empty())
    return;
  if (!readDecimal(text, value) || value < low || value > high) {
    std::string expected = "a decimal number from " + std::to_string(low) +
                           " to " + std::to_string(high);
    return complain(name, text, expected.c_str());
  }
  to = T(value);
}

/// 512M, 8G or a number of bytes.
void readMemory(uint64_t &to) {
  llvm::StringRef all = variable("CRIA_EMULATOR_MEMORY"), text = all;
  if (text.empty())
    return;
  unsigned shift = text.consume_back("G")   ? 30
                   : text.consume_back("M") ? 20
                   : text.consume_back("K") ? 10
                                            : 0;
  uint64_t value;
  if (!readDecimal(text, value) || value == 0 || value >> (44 - shift))
    return complain("CRIA_EMULATOR_MEMORY", all, "bytes such as 512M or 8G");
  to = value << shift;
}

void readChecks(Checks &checks) {
  llvm::StringRef text = variable("CRIA_EMULATOR_CHECKS");
  if (text.empty() || text == "all")
    return;
  checks = {false, false, false, false, false};
  if (text == "none")
    return;
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ',');
  for (llvm::StringRef word : words) {
    bool unused = false;
    bool &check = *llvm::StringSwitch<bool *>(word)
                       .Case("memory", &checks.memory)
                       .Case("init", &checks.init)
                       .Case("race", &checks.race)
                       .Case("global", &checks.global)
                       .Case("sync", &checks.sync)
                       .Default(&unused);
    check = true;
    if (unused)
      complain("CRIA_EMULATOR_CHECKS", word,
               "all, none or some of memory,init,race,global,sync");
  }
}

/// function:call:result[:sticky]
bool parseFault(llvm::StringRef text, Fault &fault) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ':');
  if (parts.size() < 3 || parts.size() > 4)
    return false;
  unsigned result;
  if (!readDecimal(parts[1], fault.call) || fault.call == 0 ||
      !readDecimal(parts[2], result) || result == 0)
    return false;
  parts[0].consume_back("_v2");
  fault.function = parts[0].str();
  fault.result = CUresult(result);
  fault.sticky = parts.size() == 4;
  return !fault.sticky || parts[3] == "sticky";
}

void readFaults(std::vector<Fault> &faults) {
  llvm::SmallVector<llvm::StringRef> words;
  variable("CRIA_EMULATOR_FAULTS").split(words, ',', -1, false);
  for (llvm::StringRef word : words) {
    Fault fault;
    if (parseFault(word, fault))
      faults.push_back(fault);
    else
      complain("CRIA_EMULATOR_FAULTS", word, "function:call:result[:sticky]");
  }
}

/// The folder in a variable, created if necessary; empty if there is none.
std::string readFolder(const char *name) {
  llvm::StringRef text = variable(name);
  if (text.empty() || !llvm::sys::fs::create_directories(text))
    return text.str();
  complain(name, text, "a folder that can be made");
  return "";
}

/// 1: instructions, to stderr. Text that is not like a number is a file:
/// everything is counted and written there.
void readCounting(Settings &settings) {
  constexpr char kName[] = "CRIA_EMULATOR_COUNT";
  llvm::StringRef text = variable(kName);
  if (text.empty() || text == "0")
    return;
  if (text == "1") {
    settings.counting = Counting::Instructions;
    return;
  }
  bool isNumber = llvm::StringRef("0123456789+- ").contains(text.front()) &&
                  text.find_first_of("./") == text.npos;
  FILE *file = isNumber ? nullptr : fopen(text.str().c_str(), "a");
  if (!file)
    return complain(kName, text, "0, 1 or a file that can be written");
  fclose(file);
  settings.counting = Counting::Requests;
  settings.countFile = text.str();
}

} // namespace

unsigned Settings::newestPtx() const {
  if (!boundsPtx)
    return 99;
  // CUDA 11.8 reads PTX 7.8, 12.4 reads 8.4, 13.0 reads 9.0.
  int major = driverVersion / 1000, minor = driverVersion / 10 % 100;
  return major <= 4 ? 0 : unsigned((major - 4) * 10 + minor);
}

std::string settingsText() {
  std::string text;
  for (const char *name : kVariables)
    text += variable(name).str() + '\0';
  return text;
}

Settings readSettings() {
  Settings settings;
  settings.threads = std::max(1u, std::thread::hardware_concurrency());
  llvm::StringRef device = variable("CRIA_EMULATOR_DEVICE");
  settings.capability = llvm::StringSwitch<unsigned>(device)
                            .Cases({"", "sm_80"}, 80)
                            .Case("sm_90", 90)
                            .Case("sm_100", 100)
                            .Case("sm_120", 120)
                            .Default(0);
  if (!settings.capability) {
    complain("CRIA_EMULATOR_DEVICE", device, "sm_80, sm_90, sm_100 or sm_120");
    settings.capability = 80;
  }
  readNumber("CRIA_EMULATOR_DEVICES", settings.devices, 1, 8);
  readMemory(settings.memory);
  readChecks(settings.checks);
  readNumber("CRIA_EMULATOR_SEED", settings.seed, 0, UINT64_MAX);
  readNumber("CRIA_EMULATOR_THREADS", settings.threads, 1, 1024);
  readNumber("CRIA_EMULATOR_OPTIMIZATION", settings.optimization, 0, 2);
  readNumber("CRIA_EMULATOR_TIME_LIMIT", settings.timeLimit, 1, 1000000);
  readCounting(settings);
  readNumber("CRIA_EMULATOR_DRIVER_VERSION", settings.driverVersion, 5000,
             13090);
  settings.boundsPtx = !variable("CRIA_EMULATOR_DRIVER_VERSION").empty();
  settings.cache = readFolder("CRIA_EMULATOR_CACHE");
  settings.report = variable("CRIA_EMULATOR_REPORT").str();
  readFaults(settings.faults);
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  settings.hasDevice =
      !visible || (*visible && llvm::StringRef(visible) != "-1");
  return settings;
}

} // namespace cria::emulator
