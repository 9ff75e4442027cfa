/// The features of this CPU, if both the CPU and the operating system report
/// them: the system must save the registers.
#pragma once

#include <string>
#include <vector>

namespace cria {

/// The architecture this runtime was built for: "x86_64" or "aarch64", which is
/// little-endian.
const char *hostArch();

/// The features in `needed` (LLVM's names: "avx512bf16") that this machine
/// lacks or this runtime does not know.
std::vector<std::string>
missingCpuFeatures(const std::vector<std::string> &needed);

/// Asks the system for the AMX tile registers, for this process and its later
/// threads, if `needed` names an AMX feature. False if the system refuses.
bool permitTiles(const std::vector<std::string> &needed);

/// The name of the CPU model, or "unknown".
std::string cpuName();

} // namespace cria
