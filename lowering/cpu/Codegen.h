/// From the LLVM dialect to an object file.
#pragma once

#include "lowering/cpu/Target.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"

namespace cria {

/// Translates a module in the LLVM dialect, adds `manifest` as the section
/// ".cria.manifest", and optimizes for the machine.
llvm::Expected<std::unique_ptr<llvm::Module>>
translateToLlvm(mlir::ModuleOp module, llvm::StringRef manifest,
                const CpuTarget &target, llvm::TargetMachine &machine,
                llvm::LLVMContext &context);

/// Assembly text or an object file.
llvm::Expected<llvm::SmallVector<char, 0>>
generateCode(llvm::Module &module, llvm::TargetMachine &machine,
             llvm::CodeGenFileType kind);

} // namespace cria
