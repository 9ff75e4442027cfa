/// The calling convention of entry functions from the linalg phase on: the
/// attribute `arguments`, written once where linalg is made, says what each
/// argument is, and `chunk` how many tokens a call takes at most.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cria {

/// What an argument of an entry is, in the order of CriaEntry in runtime/Abi.h.
enum class EntryArgument {
  Ids,      ///< (chunk) i32, of which `tokens` are read
  Tokens,   ///< index: how many
  Position, ///< index: of the first of them
  First,    ///< index: the first token whose logits are wanted
  Source,   ///< index: tokens of the text that an encoder has read
  Logits,   ///< (chunk, vocab) f32; updated in place
  Cache,    ///< (layers, heads, positions, size); each updated in place
  Arena,    ///< bytes: scratch, in the tile phase
};

/// The arguments of one entry function.
class EntryArguments {
public:
  /// Those of a function that has the attribute; an error at the function where
  /// it does not fit the arguments or `chunk` is missing.
  static mlir::FailureOr<EntryArguments> of(mlir::func::FuncOp entry);

  /// Writes the attribute.
  static void set(mlir::func::FuncOp entry, llvm::ArrayRef<EntryArgument> all);
  /// Adds an argument behind the others.
  static void append(mlir::func::FuncOp entry, EntryArgument what,
                     mlir::Type type);

  llvm::ArrayRef<EntryArgument> all() const { return arguments; }
  /// Where an argument stands that there is one of.
  unsigned at(EntryArgument what) const;
  /// Where the caches stand, in order.
  llvm::SmallVector<unsigned> caches() const;

private:
  llvm::SmallVector<EntryArgument> arguments;
};

/// Entries are public, kernels and weights are not.
inline bool isEntry(mlir::func::FuncOp function) {
  return function.isPublic() && !function.isDeclaration();
}

} // namespace cria
