/// The CPU that code is compiled for, described by its features. The CPU's name
/// only chooses LLVM's scheduling tables.
#pragma once

#include "lowering/cpu/Rates.h"
#include "lowering/cpu/VectorUnit.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>
#include <string>
#include <vector>

namespace cria {

struct CpuTarget {
  /// The architecture, as triples and manifests name it: "x86_64" or "aarch64".
  std::string arch;
  /// The CPU as the user named it.
  std::string flag;
  /// LLVM's name of the CPU or of the level.
  std::string name;
  /// LLVM's name of the CPU whose scheduling model is used.
  std::string tuning;
  /// The instruction sets that code may use, sorted. The runtime checks each
  /// before it runs code.
  std::vector<std::string> features;
  CpuRates rates;
  VectorUnit unit;
  /// Whether the CPU has instructions that convert between f32 and bf16.
  bool convertsBf16 = false;

  bool has(llvm::StringRef feature) const;
  /// "+avx,+avx2,..."
  std::string featureString() const;
  /// LLVM's name of the CPU whose code all CPUs of the architecture run.
  llvm::StringRef baseline() const;
};

/// The CPU of a name that LLVM knows, such as "x86-64-v3", "znver4" or
/// "neoverse-v2", of a level of the Arm architecture, such as "armv8.6-a", or
/// the CPU of this machine ("native"). Its rates come from `ratesFile`, unless
/// that is empty.
llvm::Expected<CpuTarget> selectCpu(llvm::StringRef name,
                                    llvm::StringRef ratesFile = "");

/// An instruction that multiplies, and its rate relative to f32 FMA.
struct MultiplyRate {
  std::string instruction;
  double rate;
  std::string products; // "f32, f16"
};

/// The instructions that multiply products of floats.
std::vector<MultiplyRate> multiplyRates(const CpuTarget &target);

/// The instruction that multiplies blocks of integers: "vpdpbusd" or "sdot".
std::string blockInstruction(const CpuTarget &target);

/// The CPUs of a comma-separated list of names, without duplicates. CPUs with
/// the most features are first, because the runtime prefers them. All have one
/// architecture, as an ELF object has. `ratesFile` is as above.
llvm::Expected<std::vector<CpuTarget>>
selectCpus(llvm::StringRef names, llvm::StringRef ratesFile = "");

/// LLVM's code generator for the target, or an error if LLVM lacks it. Only one
/// thread at a time may use it.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(const CpuTarget &target);

} // namespace cria
