/// The calling convention of entry functions from the linalg phase on. The
/// attribute `cria.arguments`, which is written when linalg is made, says what
/// each argument is. The attribute `cria.chunk` is the most tokens of a call.
#pragma once

#include "dialect/Attributes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cria {

/// The kinds of arguments of an entry. Ids to Arena are in the order of
/// CriaEntry in runtime/Abi.h.
enum class EntryArgument {
  Ids,         ///< (chunk) i32; the first `tokens` are read
  Tokens,      ///< index: the number of tokens
  Position,    ///< index: the position of the first token
  First,       ///< index: the first token whose logits are returned
  FirstHidden, ///< index: the first token whose hidden states are returned
  Source,      ///< index: the number of tokens that the encoder has read, or
               ///< of tokens after its own that a token sees
  Logits,      ///< (chunk, vocab) f32; updated in place
  Hidden,      ///< (chunk, hidden size) f32; updated in place
  Cache,       ///< (layers, heads, positions, size), or (..., blocks, bytes);
               ///< updated in place. Paged: (pages, layers, heads, page, ...)
               ///< with a dynamic number of pages. A state is (layers, rows,
               ///< numbers); of many texts, (states, layers, rows, numbers)
  Arena,       ///< bytes: scratch, in the tile phase
  Seen,        ///< (rows, words) i32: the ids of each row's text so far, one
               ///< bit for each id
  Sampled,     ///< (rows, 4) i32: the CriaSampled of each row's id
  Sampling,    ///< (rows, bytes): the CriaSampling of each row
  State,     ///< (1, words) i32: the CriaStepState, which a draw makes that of
             ///< the next step
  Positions, ///< (chunk) i32: the position of each token
  Pages,     ///< (width) i32: the text's pages; or (chunk, width): the pages
             ///< of each token's text
  WindowPages, ///< likewise, of the caches that keep a window alone
  States,      ///< (2) i32: the number of the state that the text reads, and
               ///< of the one that it writes; or (chunk, 2): two such numbers
               ///< for each token
};

/// The arguments of one entry function. There are two kinds of entries:
/// - An entry that runs tokens has Ids to Logits. It has FirstHidden and Hidden
///   only if it returns hidden states. Over paged caches it has Pages,
///   WindowPages only if some caches keep a window alone, and Source only if
///   tokens see others after their own; or, if each token has its own pages,
///   Positions instead of Position, and no Source.
/// - An entry that draws an id from each row of logits has Logits, Seen,
///   Sampled and Sampling. It has Tokens, the number of rows, unless there is
///   one. That of a session has Ids and State: the draw leaves there what the
///   next step reads.
class EntryArguments {
public:
  /// The arguments of a function with the attribute `cria.arguments`. An error
  /// at the function if the attribute does not fit the arguments, or if an
  /// entry that runs tokens has no `cria.chunk`.
  static mlir::FailureOr<EntryArguments> of(mlir::func::FuncOp entry);

  /// Writes the attribute.
  static void set(mlir::func::FuncOp entry, llvm::ArrayRef<EntryArgument> all);
  /// Adds an argument after the others.
  static void append(mlir::func::FuncOp entry, EntryArgument what,
                     mlir::Type type);

  /// The name of an argument in the attribute.
  static llvm::StringRef nameOf(EntryArgument what);

  llvm::ArrayRef<EntryArgument> all() const { return arguments; }
  bool has(EntryArgument what) const;
  /// Whether the entry draws ids; else it runs tokens.
  bool drawsId() const { return has(EntryArgument::Sampled); }
  /// The index of an argument that occurs once.
  unsigned at(EntryArgument what) const;
  /// The indices of the caches, in order.
  llvm::SmallVector<unsigned> caches() const;
  /// The indices of the arguments that the entry updates in place and returns,
  /// in the order of its results. `logits` says whether the logits are among
  /// them.
  llvm::SmallVector<unsigned> outputs(bool logits) const;

private:
  llvm::SmallVector<EntryArgument> arguments;
};

/// The most tokens of a call of an entry or a kernel; nothing if the function
/// does not say, or says what is no number of tokens.
std::optional<int64_t> chunkOf(mlir::func::FuncOp function);

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

/// Fails if an entry has tensors, or memory that is not contiguous, as
/// arguments.
mlir::LogicalResult verifyMemory(mlir::func::FuncOp entry);

/// Whether an address is all that says where the numbers of a memref are.
inline bool isContiguousMemory(mlir::MemRefType type) {
  return type.getLayout().isIdentity() && !type.getMemorySpace();
}

} // namespace cria
