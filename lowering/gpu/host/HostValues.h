/// The values of an entry function, as the plan that replaces the function
/// expresses them: numbers that a step knows, and places in device memory.
#pragma once

#include "lowering/entry/Entry.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/AffineExpr.h"

namespace cria::simt {

/// The device's arena begins with `kZeroed` bytes that are zero when a session
/// begins, for the globals of all entries. After them, each entry has memory of
/// its own.
inline constexpr int64_t kZeroed = 64 << 10, kPlaceAlignment = 256;

/// The place of each global in the arena.
using GlobalPlaces = llvm::StringMap<int64_t>;

class HostValues {
public:
  HostValues(EntryArguments arguments, const GlobalPlaces &globals,
             mlir::MLIRContext *context)
      : arguments(std::move(arguments)), globals(globals), context(context) {}

  /// The argument of a step for argument `i` of `op`, a memref: the address of
  /// its first element, minus the offset that its type has. An error at `op` if
  /// the memory has no place, or the plan cannot express it.
  mlir::FailureOr<mlir::DictionaryAttr> place(mlir::Operation *op, unsigned i,
                                              mlir::Value memref) const;
  /// A dimension of a grid. It is a constant; or tokens, rows of logits or rows
  /// of hidden states over a constant, rounded up; or the larger one of that
  /// and a constant; or any of these or 0, chosen by whether the number of
  /// tokens or rows is at most a bound. Null for any other number.
  mlir::Attribute gridSize(mlir::Value size) const;

private:
  mlir::DictionaryAttr chosenSize(mlir::arith::SelectOp size) const;
  /// Memory of one kind, as in the arguments of launches.
  struct Memory {
    llvm::StringRef kind;
    /// A weight's slot, a cache's number.
    mlir::AffineExpr number;
    /// Bytes from the start of the memory to the memref's pointer, and from
    /// there to its first element. Null if they are not known.
    mlir::AffineExpr base, offset;
    /// Bytes of a cache, or of a page of one.
    int64_t size = 0;
  };
  /// Begins "expected argument i to", at the launch.
  using Expected = llvm::function_ref<mlir::InFlightDiagnostic()>;

  mlir::AffineExpr read(mlir::Value index) const;
  mlir::AffineExpr read(mlir::BlockArgument index) const;
  mlir::AffineExpr read(mlir::OpFoldResult index) const;
  mlir::AffineExpr constant(int64_t value) const {
    return mlir::getAffineConstantExpr(value, context);
  }
  Memory memory(llvm::StringRef kind, mlir::AffineExpr number,
                int64_t base = 0) const {
    return {kind, number, constant(base), constant(0), 0};
  }
  mlir::FailureOr<Memory> find(mlir::Value memref, Expected expected) const;
  Memory find(mlir::BlockArgument memref) const;
  Memory find(mlir::func::CallOp weight) const;
  mlir::AffineExpr offsetOf(mlir::memref::SubViewOp view) const;

  EntryArguments arguments;
  const GlobalPlaces &globals;
  mlir::MLIRContext *context;
};

/// The first slot of the weight or RoPE table that the function stands for;
/// nothing if it is another function.
std::optional<int64_t> slotOf(mlir::func::FuncOp function);
/// The declaration of the called weight or RoPE table, or null.
mlir::func::FuncOp calledWeight(mlir::func::CallOp call);

} // namespace cria::simt
