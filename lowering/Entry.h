/// The calling convention of entry functions from the linalg phase on: the
/// attribute `arguments`, written once where linalg is made, says what each
/// argument is, and `chunk` how many tokens a call takes at most.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cria {

/// What an argument of an entry is; up to Arena in the order of CriaEntry in
/// runtime/Abi.h.
enum class EntryArgument {
  Ids,         ///< (chunk) i32, of which `tokens` are read
  Tokens,      ///< index: how many
  Position,    ///< index: of the first of them
  First,       ///< index: the first token whose logits are wanted
  FirstHidden, ///< index: the first token whose hidden states are wanted
  Source,      ///< index: tokens of the text that an encoder has read
  Logits,      ///< (chunk, vocab) f32; updated in place
  Hidden,      ///< (chunk, hidden size) f32; updated in place
  Cache,       ///< (layers, heads, positions, size), or with (blocks, bytes) in
               ///< place of the size; each updated in place. Paged: (pages,
               ///< layers, heads, page, ...), of any number of pages
  Arena,       ///< bytes: scratch, in the tile phase
  Seen,        ///< i32: the ids of the text so far, a bit each
  Sampled,     ///< i32: the CriaSampled of the id that is drawn
  State,       ///< bytes: the CriaStepState, which says how
  Positions,   ///< (chunk) i32: of each token, in place of Position
  Pages,       ///< (width) i32: the text's pages; or (chunk, width), of each
               ///< token's
};

/// The arguments of one entry function. An entry runs tokens, and has all of
/// Ids to Logits, FirstHidden and Hidden only where it returns hidden states;
/// or it draws an id from the only row of the logits, and has Logits, Seen,
/// Sampled and State. One over paged caches has Pages in place of Source; where
/// each token has pages, Positions in place of Position.
class EntryArguments {
public:
  /// Those of a function that has the attribute; an error at the function where
  /// it does not fit the arguments, or an entry that runs tokens has no
  /// `chunk`.
  static mlir::FailureOr<EntryArguments> of(mlir::func::FuncOp entry);

  /// Writes the attribute.
  static void set(mlir::func::FuncOp entry, llvm::ArrayRef<EntryArgument> all);
  /// Adds an argument behind the others.
  static void append(mlir::func::FuncOp entry, EntryArgument what,
                     mlir::Type type);

  /// As the attribute says it.
  static llvm::StringRef nameOf(EntryArgument what);

  llvm::ArrayRef<EntryArgument> all() const { return arguments; }
  bool has(EntryArgument what) const;
  /// Whether the entry draws an id; else it runs tokens.
  bool drawsId() const { return has(EntryArgument::Sampled); }
  /// Where an argument stands that there is one of.
  unsigned at(EntryArgument what) const;
  /// Where the caches stand, in order.
  llvm::SmallVector<unsigned> caches() const;
  /// Where those stand that the entry returns, updated in place, in the order
  /// of its results; `logits` says whether the logits are among them.
  llvm::SmallVector<unsigned> outputs(bool logits) const;

private:
  llvm::SmallVector<EntryArgument> arguments;
};

/// Entries are public, kernels and weights are not.
inline bool isEntry(mlir::func::FuncOp function) {
  return function.isPublic() && !function.isDeclaration();
}

/// The kernel functions of a module from linalg to tile, in the order of the
/// manifest's "kernels".
inline auto kernelFunctions(mlir::ModuleOp module) {
  return llvm::make_filter_range(
      module.getOps<mlir::func::FuncOp>(), [](mlir::func::FuncOp function) {
        return function.isPrivate() && !function.isDeclaration();
      });
}

} // namespace cria
