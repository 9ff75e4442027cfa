/// From the LLVM dialect to an object file.
#pragma once

#include "lowering/cpu/Target.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

namespace cria {

/// Text that an artifact carries, in a section of its own. What is exported is
/// aligned to 64 bytes: a cubin is an ELF file that is read where it lies.
struct Text {
  std::string symbol, section, text;
  /// The runtime looks the symbol up and reads to the zero behind the text.
  bool exported = false;
};

/// Translates a module in the LLVM dialect, adds the texts, and optimizes for
/// the machine.
llvm::Expected<std::unique_ptr<llvm::Module>>
translateToLlvm(mlir::ModuleOp module, llvm::ArrayRef<Text> texts,
                const CpuTarget &target, llvm::TargetMachine &machine,
                llvm::LLVMContext &context);

/// Assembly text or an object file.
llvm::Expected<llvm::SmallVector<char, 0>>
generateCode(llvm::Module &module, llvm::TargetMachine &machine,
             llvm::CodeGenFileType kind);

} // namespace cria
