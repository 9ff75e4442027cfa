/// From the LLVM dialect to an object file.
#pragma once

#include "lowering/cpu/Target.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <vector>

namespace cria {

/// Text that an artifact carries, in a section of its own. What is exported is
/// aligned to 64 bytes: a cubin is an ELF file that is read where it lies.
struct Text {
  std::string symbol, section, text;
  /// The runtime looks the symbol up and reads to the zero after the text.
  bool exported = false;
};

/// LLVM IR that is compiled apart from the rest, in a context of its own:
/// threads share nothing.
struct CodePart {
  CpuTarget target;
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

/// Translates a module in the LLVM dialect, and empties it; optimizes for the
/// target. A part for each entry and kernel, in the module's order, then one
/// for the texts. `suffix` is appended to the names of functions. The threads
/// are those of the module's context: what comes out does not depend on their
/// number.
llvm::Expected<std::vector<CodePart>>
translateToLlvm(mlir::ModuleOp module, llvm::ArrayRef<Text> texts,
                const CpuTarget &target, llvm::StringRef suffix = "");

/// All parts, which are of one target, in one module, to be read.
llvm::Expected<CodePart> joinParts(llvm::ArrayRef<CodePart> parts);

/// Assembly text. Generating code changes the part.
llvm::Expected<llvm::SmallVector<char, 0>> generateAssembly(CodePart &part);

/// An object file for each part, which generating code changes.
llvm::Expected<std::vector<llvm::SmallVector<char, 0>>>
generateObjects(mlir::MLIRContext *context, llvm::ArrayRef<CodePart> parts);

} // namespace cria
