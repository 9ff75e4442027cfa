/// From the LLVM dialect to an object file.
#pragma once

#include "lowering/cpu/Target.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/Timing.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <vector>

namespace cria {

/// Text that an artifact has in a section of its own. Exported text is aligned
/// to 64 bytes, because a cubin is an ELF file that is read in place.
struct Text {
  std::string symbol, section, text;
  /// The runtime looks up the symbol.
  bool exported = false;
};

/// A part of the program as LLVM IR, in a context of its own, so that threads
/// share nothing.
struct CodePart {
  CpuTarget target;
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

/// Translates a module in the LLVM dialect to parts, optimizes them for the
/// target, and empties the module. There is a part for each entry and kernel,
/// in the module's order, and then one for the texts. `suffix` is appended to
/// the names of functions. The work is done on the threads of the module's
/// context; the result does not depend on their number. `timing` gets the
/// times of translation and of LLVM's passes.
llvm::Expected<std::vector<CodePart>>
translateToLlvm(mlir::ModuleOp module, llvm::ArrayRef<Text> texts,
                const CpuTarget &target, llvm::StringRef suffix,
                mlir::TimingScope &timing);

/// Joins all parts, which have the same target, to one readable module.
llvm::Expected<CodePart> joinParts(llvm::ArrayRef<CodePart> parts);

/// Generates assembly. This changes the part.
llvm::Expected<llvm::SmallVector<char, 0>>
generateAssembly(CodePart &part, mlir::TimingScope &timing);

/// Generates an object file for each part. This changes the parts.
llvm::Expected<std::vector<llvm::SmallVector<char, 0>>>
generateObjects(mlir::MLIRContext *context, llvm::ArrayRef<CodePart> parts,
                mlir::TimingScope &timing);

} // namespace cria
