/// How a kernel function of the linalg phase becomes launches: the function
/// that launches, and one launch with its kernel.
#pragma once

#include "lowering/gpu/Chips.h"
#include "lowering/gpu/KernelBuilder.h"
#include "lowering/kernel/Elements.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace cria::simt {

/// A global of `count` zeros, i32: memory that is zero when a session begins.
mlir::memref::GlobalOp createZeros(mlir::OpBuilder builder, mlir::Location loc,
                                   const llvm::Twine &name, int64_t count);

/// The function `name.launch` on memrefs, which follows `kernel` on tensors and
/// launches the kernels that compute it.
class KernelFunction {
public:
  KernelFunction(mlir::func::FuncOp kernel, mlir::Block &kernels,
                 const Chips &chips);
  /// Ends the function, or with `erase` removes it and its kernels.
  void finish();
  void erase();

  mlir::func::FuncOp kernel;
  mlir::Block &kernels; ///< of the gpu.module
  const Chips &chips;
  Elements elements;
  /// Builds the launches.
  mlir::ImplicitLocOpBuilder host;

  /// A number of the kernel, in the launching function.
  mlir::Value number(mlir::Value index);
  mlir::Value number(const Size &size);
  /// The memory of an argument, or of a tensor that has been given some.
  mlir::Value memory(mlir::Value tensor) const {
    return memories.lookup(tensor);
  }
  /// New memory for a tensor.
  mlir::Value allocate(mlir::Value tensor);
  /// New memory of so many numbers.
  mlir::Value allocate(mlir::Type element, int64_t count);
  /// New memory that is zero when a session begins.
  mlir::Value zeroed(int64_t count);
  /// Whether an argument is the number of a layer: a constant, or counted by a
  /// loop, where the kernel is called.
  bool isLayer(mlir::Value index);
  /// Rows of the grid: a size over `each`, rounded up; `least` at least.
  mlir::Value blocks(const Size &size, int64_t each, int64_t least = 1);
  /// `blocks` where a size is at most `bound`, or with `beyond` where it is
  /// more; else none.
  mlir::Value blocksWhere(const Size &size, int64_t bound, bool beyond,
                          mlir::Value blocks);
  mlir::Value constant(int64_t value);

private:
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::func::CallOp> calls;
  llvm::DenseMap<mlir::Value, mlir::Value> memories, numbers;
  unsigned globals = 0;
  friend class Launch;
  llvm::SmallVector<mlir::Operation *> made;
};

/// A kernel being built, and what it is launched with.
class KernelLaunch {
public:
  KernelLaunch(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
               const llvm::Twine &name, int64_t threads);

  KernelBuilder b;

  /// The parameter for memory of the host.
  mlir::Value param(mlir::Value memory);
  /// Its rows, `stride` elements apart.
  Rows rows(mlir::Value memory, int64_t stride);
  /// The argument of a kernel that copies boxes of rows' memory, whose elements
  /// it loads nowhere as yet.
  mlir::Value tensorMap(const Rows &rows, const TensorMap &map);
  /// Ends the kernel and launches it, with so many bytes of `launchedShared`.
  void finish(llvm::ArrayRef<mlir::Value> grid, int64_t sharedBytes = 0);

protected:
  /// The parameter for what the host passes; `add` makes one where there is
  /// none.
  mlir::Value param(mlir::Value passed, llvm::function_ref<mlir::Value()> add);

  mlir::ImplicitLocOpBuilder &host;

private:
  llvm::SmallVector<mlir::Value> operands;
  llvm::DenseMap<mlir::Value, mlir::Value> params;
};

/// One launch of a kernel function's.
class Launch : public KernelLaunch {
public:
  /// Begins the kernel `<name of the function><suffix>`.
  Launch(KernelFunction &of, const llvm::Twine &suffix, int64_t threads);

  KernelFunction &of;

  /// Gives the kernel up, the last that the function began.
  void erase();
  /// A number of the kernel as i32.
  mlir::Value number(mlir::Value index);
  mlir::Value number(const Size &size);
  /// Where an element in memory lies, of a tensor whose last dimension is a
  /// row: rows, and the row's number; its column is `at.back()`. A leading
  /// layer is a part of the memory.
  struct Place {
    Rows rows;
    mlir::AffineExpr row, column;
  };
  Place place(const Element &element);
  /// An expression over loops, in i32.
  mlir::Value value(mlir::AffineExpr expr, mlir::ValueRange loops);
  Address address(const Element &element, mlir::ValueRange loops);
  mlir::Value load(const Element &element, mlir::ValueRange loops,
                   int64_t lanes = 1);
  void store(mlir::Value x, const Element &element, mlir::ValueRange loops);

private:
  mlir::Value index(mlir::Value number);

  llvm::DenseMap<mlir::Value, mlir::Value> numbers;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, mlir::Value> layers;
  mlir::Operation *lastNumber = nullptr;
};

/// Elements of a 16-byte access, or fewer, so that an element's place is a
/// multiple of it wherever `loop` is one.
int64_t accessWidth(const Launch::Place &place, unsigned loop, int64_t terms);

} // namespace cria::simt
