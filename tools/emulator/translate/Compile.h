/// LLVM IR to machine code of this process.
#pragma once

#include "llvm/ExecutionEngine/Orc/ThreadSafeModule.h"

#include <memory>
#include <string>
#include <variant>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace cria::emulator {

/// Gives a new module the data layout and the triple of the host.
void prepareForHost(llvm::Module &module);

/// Optimizes `module` at LLVM's level `optimization`, compiles it into `jit`
/// (made if null) and returns the address of `function`, or why it cannot.
/// Keeps machine code in the folder `cache` and finds it there again, unless
/// `cache` is empty.
std::variant<uint64_t, std::string>
compileKernel(std::unique_ptr<llvm::orc::LLJIT> &jit,
              llvm::orc::ThreadSafeModule module, const std::string &function,
              unsigned optimization, const std::string &cache);

} // namespace cria::emulator
