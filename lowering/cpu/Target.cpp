#include "lowering/cpu/Target.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace cria;

/// The instruction sets that generated code may use if the CPU has them. Each
/// has a CPUID bit that the runtime knows.
static constexpr const char *kFeatures[] = {
    "amx-bf16",     "amx-int8",   "amx-tile",
    "avx",          "avx2",       "avx512bf16",
    "avx512bitalg", "avx512bw",   "avx512cd",
    "avx512dq",     "avx512f",    "avx512fp16",
    "avx512ifma",   "avx512vbmi", "avx512vbmi2",
    "avx512vl",     "avx512vnni", "avx512vpopcntdq",
    "avxvnni",      "bmi",        "bmi2",
    "f16c",         "fma",        "lzcnt",
    "movbe",        "popcnt",     "sse3",
    "sse4.1",       "sse4.2",     "ssse3"};

bool CpuTarget::has(llvm::StringRef feature) const {
  return llvm::is_contained(features, feature);
}

std::string CpuTarget::featureString() const {
  return features.empty() ? "" : "+" + llvm::join(features, ",+");
}

static VectorUnit vectorUnit(const CpuTarget &target) {
  VectorUnit unit;
  bool wide = target.has("avx512f") && target.has("avx512bw") &&
              target.has("avx512vl") && target.has("avx512dq");
  unit.lanes = wide ? 16 : 8;
  unit.registers = wide ? 32 : 16;
  unit.dotBf16 = wide && target.has("avx512bf16") && target.rates.dotBf16 > 1;
  // The VEX form of vpdpbusd has 16 registers of 256 bits.
  unit.dotBytes = wide ? target.has("avx512vnni") : target.has("avxvnni");
  unit.amx = wide && target.has("amx-tile") && target.has("amx-bf16") &&
             target.rates.tilesBf16 > std::max(1.0, target.rates.dotBf16);
  unit.amxBytes = unit.amx && target.has("amx-int8");
  unit.streams = target.rates.readStreams;
  unit.blockForL2 = target.rates.blocksForL2;
  return unit;
}

/// An error that names the valid name that is nearest to `name`.
static llvm::Error unknownCpu(llvm::StringRef name,
                              llvm::ArrayRef<llvm::StringRef> valid) {
  auto *nearest = llvm::min_element(valid, [&](auto a, auto b) {
    return name.edit_distance(a) < name.edit_distance(b);
  });
  bool isNear = name.edit_distance(*nearest) < name.size();
  return llvm::createStringError(
      "unknown CPU '" + name + "'" +
      (isNear ? ": did you mean '" + *nearest + "'?" : ""));
}

llvm::Expected<CpuTarget> cria::selectCpu(llvm::StringRef name,
                                          llvm::StringRef ratesFile) {
  CpuTarget target;
  target.flag = name.str();
  llvm::StringMap<bool> has;
  if (name == "native") {
    has = llvm::sys::getHostCPUFeatures();
    name = llvm::sys::getHostCPUName();
  } else {
    llvm::SmallVector<llvm::StringRef> valid, features;
    llvm::X86::fillValidCPUArchList(valid, /*Only64Bit=*/true);
    if (!llvm::is_contained(valid, name))
      return unknownCpu(name, valid);
    llvm::X86::getFeaturesForCPU(name, features);
    for (llvm::StringRef feature : features)
      has[feature] = true;
    // LLVM's lists omit features that other features imply.
    if (has.lookup("avx512vl"))
      has["avx512f"] = true;
  }
  target.name = name.str();
  for (const char *feature : kFeatures)
    if (has.lookup(feature))
      target.features.push_back(feature);
  // On CPUs below x86-64-v3, code would call libraries for f16 and fused
  // products.
  for (const char *needed : {"avx2", "fma", "f16c"})
    if (!target.has(needed))
      return llvm::createStringError("CPU '" + name + "': expected " + needed +
                                     ", which it lacks");
  target.rates =
      knownRates([&](llvm::StringRef feature) { return has.lookup(feature); });
  if (!ratesFile.empty())
    if (llvm::Error error = readRates(ratesFile, target.rates))
      return error;
  target.unit = vectorUnit(target);
  target.convertsBf16 = target.has("avx512bf16") && target.has("avx512vl");
  return target;
}

std::vector<MultiplyRate> cria::multiplyRates(const CpuTarget &target) {
  const VectorUnit &unit = target.unit;
  std::string bf16 = unit.amx ? "bf16 with one row" : "bf16";
  std::vector<MultiplyRate> rows = {
      {"f32 FMA", 1, "f32, f16" + (unit.dotBf16 ? "" : ", " + bf16)}};
  if (unit.dotBf16)
    rows.push_back({"vdpbf16ps", target.rates.dotBf16, bf16});
  if (unit.amx)
    rows.push_back({"tdpbf16ps", target.rates.tilesBf16, "bf16"});
  return rows;
}

std::string cria::blockInstruction(const CpuTarget &target) {
  const VectorUnit &unit = target.unit;
  return std::string(unit.amxBytes ? "tdpbssd, of one row by " : "") +
         (unit.dotBytes ? "vpdpbusd" : "vpmaddwd");
}

llvm::Expected<std::vector<CpuTarget>>
cria::selectCpus(llvm::StringRef names, llvm::StringRef ratesFile) {
  std::vector<CpuTarget> targets;
  for (llvm::StringRef name : llvm::split(names, ',')) {
    llvm::Expected<CpuTarget> target = selectCpu(name, ratesFile);
    if (!target)
      return target.takeError();
    for (const CpuTarget &other : targets)
      if (other.name == target->name)
        return llvm::createStringError("--cpu=" + names +
                                       ": expected each CPU "
                                       "once, got '" +
                                       target->name + "' twice");
    targets.push_back(std::move(*target));
  }
  llvm::stable_sort(targets, [](const CpuTarget &a, const CpuTarget &b) {
    return a.features.size() > b.features.size();
  });
  return targets;
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
cria::createTargetMachine(const CpuTarget &target) {
  static const bool initialized = !llvm::InitializeNativeTarget() &&
                                  !llvm::InitializeNativeTargetAsmPrinter();
  if (!initialized)
    return llvm::createStringError("this build of LLVM has no native target");
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return llvm::createStringError(error);
  llvm::TargetOptions options;
  options.FunctionSections = true; // the linker merges equal sections
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, "x86-64", target.featureString(), options, llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}
