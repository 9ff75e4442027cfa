/// The CPU that is compiled for, by its features: its name chooses only LLVM's
/// scheduling tables.
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
  /// As the user named it.
  std::string flag;
  /// LLVM's name, for its scheduling model.
  std::string name;
  /// Instruction sets that code may use, sorted; the runtime checks each
  /// before it runs a byte.
  std::vector<std::string> features;
  CpuRates rates;
  VectorUnit unit;
  /// f32 and bf16 convert in hardware.
  bool convertsBf16 = false;

  bool has(llvm::StringRef feature) const;
  /// "+avx,+avx2,..."
  std::string featureString() const;
};

/// The CPU of a name that LLVM knows, such as "x86-64-v3" or "znver4", or of
/// this machine ("native"), by its features. Rates are those of `ratesFile`, if
/// it is not empty.
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

/// The instruction that multiplies blocks of integers: "vpdpbusd".
std::string blockInstruction(const CpuTarget &target);

/// The CPUs of a comma-separated list of names, each once. CPUs with the most
/// features are first, because the runtime prefers them. `ratesFile` is as
/// above.
llvm::Expected<std::vector<CpuTarget>>
selectCpus(llvm::StringRef names, llvm::StringRef ratesFile = "");

/// Code generation for the target, or an error if LLVM lacks it. One thread
/// uses it at a time.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(const CpuTarget &target);

} // namespace cria
