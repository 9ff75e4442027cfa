/// Functions that LLVM's archives call and that Cria has no use for. They are
/// linked only with CRIA_STATIC, in place of what would make cria-compile half
/// as large again, or would run on fewer systems.
#include "llvm/Plugins/PassPlugin.h"

#include <cstdint>
#include <cstdlib>
#include <unistd.h>

// lld starts all targets of LLVM for its link-time optimization, which the
// linker of artifacts does not use. Cria starts its own targets itself.
#define UNUSED(target)                                                         \
  extern "C" void LLVMInitialize##target##TargetInfo() {}                      \
  extern "C" void LLVMInitialize##target##Target() {}                          \
  extern "C" void LLVMInitialize##target##TargetMC() {}                        \
  extern "C" void LLVMInitialize##target##AsmPrinter() {}                      \
  extern "C" void LLVMInitialize##target##AsmParser() {}
#include "UnusedTargets.def"

/// Link-time optimization asks for Polly, too.
llvm::PassPluginLibraryInfo getPollyPluginInfo() { return {}; }

/// LLVM names temporary files by glibc's function, which is as new as
/// glibc 2.36.
extern "C" uint32_t arc4random() noexcept {
  uint32_t number;
  if (getentropy(&number, sizeof(number)) != 0)
    abort();
  return number;
}
