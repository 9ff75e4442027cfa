#include "lowering/cpu/Target.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/AArch64TargetParser.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace cria;

static constexpr const char *kX86 = "x86_64", *kArm = "aarch64";

/// The instruction sets that generated code may use if the CPU has them. The
/// runtime knows for each how a CPU reports it.
static constexpr const char *kX86Features[] = {
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
static constexpr const char *kArmFeatures[] = {"bf16", "dotprod", "fullfp16",
                                               "i8mm", "neon"};

/// The instruction sets that generated code needs. On CPUs below x86-64-v3,
/// code would call libraries for f16 and fused products.
static constexpr const char *kX86Needed[] = {"avx2", "fma", "f16c"};
static constexpr const char *kArmNeeded[] = {"neon", "dotprod"};

bool CpuTarget::has(llvm::StringRef feature) const {
  return llvm::is_contained(features, feature);
}

std::string CpuTarget::featureString() const {
  return features.empty() ? "" : "+" + llvm::join(features, ",+");
}

llvm::StringRef CpuTarget::baseline() const {
  return arch == kArm ? "generic" : "x86-64";
}

static VectorUnit vectorUnit(const CpuTarget &target) {
  VectorUnit unit;
  unit.streams = target.rates.readStreams;
  unit.blockForL2 = target.rates.blocksForL2;
  if (target.arch == kArm) {
    unit.neon = unit.dotBytes = true;
    unit.lanes = 4;
    unit.registers = 32;
    unit.dotBf16 = target.has("bf16") && target.rates.dotBf16 > 1;
    unit.mmlaBf16 =
        unit.dotBf16 && target.rates.tilesBf16 > target.rates.dotBf16;
    unit.mmlaBytes = target.has("i8mm");
    return unit;
  }
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
  return unit;
}

/// The features of an x86 CPU that LLVM knows.
static llvm::StringMap<bool> x86Features(llvm::StringRef name) {
  llvm::SmallVector<llvm::StringRef> features;
  llvm::X86::getFeaturesForCPU(name, features);
  llvm::StringMap<bool> has;
  // LLVM's lists omit features that other features imply.
  for (llvm::StringRef feature : features) {
    has[feature] = true;
    llvm::X86::updateImpliedFeatures(feature, /*Enabled=*/true, has);
  }
  return has;
}

/// The features of an Arm CPU that LLVM knows, or of a level.
static llvm::StringMap<bool> armFeatures(llvm::StringRef name) {
  llvm::AArch64::ExtensionSet extensions;
  if (auto cpu = llvm::AArch64::parseCpu(name))
    extensions.addCPUDefaults(*cpu);
  else
    extensions.addArchDefaults(*llvm::AArch64::parseArch(name));
  std::vector<llvm::StringRef> features;
  extensions.toLLVMFeatureList(features);
  llvm::StringMap<bool> has;
  for (llvm::StringRef feature : features)
    if (feature.consume_front("+"))
      has[feature] = true;
  return has;
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
  target.arch = kX86;
  llvm::StringMap<bool> has;
  llvm::SmallVector<llvm::StringRef> x86, arm;
  llvm::X86::fillValidCPUArchList(x86, /*Only64Bit=*/true);
  llvm::AArch64::fillValidCPUArchList(arm);
  for (const llvm::AArch64::ArchInfo *level : llvm::AArch64::ArchInfos)
    arm.push_back(level->Name);
  if (name == "native") {
    has = llvm::sys::getHostCPUFeatures();
    name = llvm::sys::getHostCPUName();
    if (llvm::Triple(llvm::sys::getProcessTriple()).isAArch64())
      target.arch = kArm;
  } else if (llvm::is_contained(x86, name)) {
    has = x86Features(name);
  } else if (llvm::is_contained(arm, name)) {
    has = armFeatures(name);
    target.arch = kArm;
  } else {
    x86.append(arm);
    return unknownCpu(name, x86);
  }
  target.name = name.str();
  bool isArm = target.arch == kArm;
  bool isLevel = isArm && llvm::AArch64::parseArch(name);
  target.tuning = isLevel ? "generic" : target.name;
  for (const char *feature :
       isArm ? llvm::ArrayRef(kArmFeatures) : llvm::ArrayRef(kX86Features))
    if (has.lookup(feature))
      target.features.push_back(feature);
  for (const char *needed :
       isArm ? llvm::ArrayRef(kArmNeeded) : llvm::ArrayRef(kX86Needed))
    if (!target.has(needed))
      return llvm::createStringError("CPU '" + name + "': expected " + needed +
                                     ", which it lacks");
  target.rates =
      knownRates([&](llvm::StringRef feature) { return has.lookup(feature); });
  if (!ratesFile.empty())
    if (llvm::Error error = readRates(ratesFile, target.rates))
      return error;
  target.unit = vectorUnit(target);
  target.convertsBf16 = target.has("bf16") ||
                        (target.has("avx512bf16") && target.has("avx512vl"));
  return target;
}

std::vector<MultiplyRate> cria::multiplyRates(const CpuTarget &target) {
  const VectorUnit &unit = target.unit;
  std::string bf16 = unit.amx || unit.mmlaBf16 ? "bf16 with one row" : "bf16";
  std::vector<MultiplyRate> rows = {
      {"f32 FMA", 1, "f32, f16" + (unit.dotBf16 ? "" : ", " + bf16)}};
  if (unit.dotBf16)
    rows.push_back(
        {unit.neon ? "bfdot" : "vdpbf16ps", target.rates.dotBf16, bf16});
  if (unit.amx || unit.mmlaBf16)
    rows.push_back(
        {unit.amx ? "tdpbf16ps" : "bfmmla", target.rates.tilesBf16, "bf16"});
  return rows;
}

std::string cria::blockInstruction(const CpuTarget &target) {
  const VectorUnit &unit = target.unit;
  if (unit.neon)
    return unit.mmlaBytes ? "smmla, of one row by sdot" : "sdot";
  std::string tiles = "tdpbssd, if widened tdpbf16ps, of one row by ";
  return (unit.amxBytes ? tiles : "") +
         (unit.dotBytes ? "vpdpbusd" : "vpmaddwd, of four bits vpmaddubsw");
}

llvm::Expected<std::vector<CpuTarget>>
cria::selectCpus(llvm::StringRef names, llvm::StringRef ratesFile) {
  std::vector<CpuTarget> targets;
  for (llvm::StringRef name : llvm::split(names, ',')) {
    llvm::Expected<CpuTarget> target = selectCpu(name, ratesFile);
    if (!target)
      return target.takeError();
    for (const CpuTarget &other : targets) {
      if (other.arch != target->arch)
        return llvm::createStringError(
            "--cpu=" + names + ": expected CPUs of one architecture, got '" +
            other.name + "' of " + other.arch + " and '" + target->name +
            "' of " + target->arch);
      if (other.name == target->name)
        return llvm::createStringError("--cpu=" + names +
                                       ": expected each CPU "
                                       "once, got '" +
                                       target->name + "' twice");
    }
    targets.push_back(std::move(*target));
  }
  llvm::stable_sort(targets, [](const CpuTarget &a, const CpuTarget &b) {
    return a.features.size() > b.features.size();
  });
  return targets;
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
cria::createTargetMachine(const CpuTarget &target) {
  static const bool initialized = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple(target.arch + "-unknown-linux-gnu");
  std::string error;
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return llvm::createStringError(error);
  llvm::TargetOptions options;
  options.FunctionSections = true; // the linker merges equal sections
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, target.baseline(), target.featureString(), options,
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}
