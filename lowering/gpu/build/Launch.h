/// From a kernel function of the linalg phase to launches: the function that
/// launches, and one launch with its kernel.
#pragma once

#include "lowering/gpu/build/Chips.h"
#include "lowering/gpu/build/KernelBuilder.h"
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

  /// The most tokens of one call, if the kernel function says it.
  std::optional<int64_t> mostTokens() const;
  /// A number of the kernel function, in the launching function.
  mlir::Value number(mlir::Value index);
  mlir::Value number(const Size &size);
  /// The memory of an argument, or of a tensor that was given memory.
  mlir::Value memory(mlir::Value tensor) const {
    return memories.lookup(tensor);
  }
  /// New memory for a tensor.
  mlir::Value allocate(mlir::Value tensor);
  /// From this call on a tensor has the memory of another one.
  void setMemory(mlir::Value tensor, mlir::Value of) {
    memories[tensor] = memories.lookup(of);
  }
  /// New memory of `count` numbers.
  mlir::Value allocate(mlir::Type element, int64_t count);
  /// New memory that is zero when a session begins.
  mlir::Value zeroed(int64_t count);
  /// Whether an argument is the number of a layer in every call: a constant, or
  /// the counter of a loop.
  bool isLayer(mlir::Value index) const;
  /// Rows of the grid: a size over `each`, rounded up; at least `least`.
  mlir::Value blocks(const Size &size, int64_t each, int64_t least = 1);
  /// `blocks` if a size is at most `bound`, or with `beyond` if it is larger;
  /// else 0.
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

/// A kernel that is being built, and the arguments of its launch.
class KernelLaunch {
public:
  KernelLaunch(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
               const llvm::Twine &name, int64_t threads);

  KernelBuilder b;

  /// The parameter for memory of the host.
  mlir::Value param(mlir::Value memory);
  /// The rows of host memory, `stride` elements apart.
  Rows rows(mlir::Value memory, int64_t stride);
  /// A new argument of the kernel for copies of boxes from the rows' memory.
  /// The kernel must not have loaded elements of that memory yet.
  mlir::Value tensorMap(const Rows &rows, const TensorMap &map);
  /// Ends the kernel and launches it, with `sharedBytes` bytes of
  /// `launchedShared`.
  void finish(llvm::ArrayRef<mlir::Value> grid, int64_t sharedBytes = 0);

protected:
  /// The parameter for a value that the host passes; `add` makes one if there
  /// is none.
  mlir::Value param(mlir::Value passed, llvm::function_ref<mlir::Value()> add);

  mlir::ImplicitLocOpBuilder &host;

private:
  llvm::SmallVector<mlir::Value> operands;
  llvm::DenseMap<mlir::Value, mlir::Value> params;
  /// The host memory of parameters that became tensor maps.
  llvm::DenseMap<mlir::Value, mlir::Value> mapped;
};

/// One launch of a kernel function.
class Launch : public KernelLaunch {
public:
  /// Begins the kernel `<name of the function><suffix>`.
  Launch(KernelFunction &of, const llvm::Twine &suffix, int64_t threads);

  KernelFunction &of;

  /// Removes the kernel, which must be the last one that the function began.
  void erase();
  /// A number of the kernel as i32.
  mlir::Value number(mlir::Value index);
  mlir::Value number(const Size &size);
  /// The place of an element in memory. The last dimension of its tensor is a
  /// row: `rows`, the row's number, and the column, `at.back()`. A leading
  /// layer is a part of the memory.
  struct Place {
    Rows rows;
    mlir::AffineExpr row, column;
  };
  Place place(const Element &element);
  /// From this call on, the block has a row of a tensor in shared memory: the
  /// elements whose first coordinate is the block's own one. Others are not
  /// read.
  void hold(mlir::Value tensor, const Rows &rows) { held[tensor] = rows; }
  bool holds(mlir::Value tensor) const { return held.contains(tensor); }
  /// The memory of a tensor, whose last dimension is a row.
  Rows memoryOf(mlir::Value tensor);
  /// An expression over loops, in i32.
  mlir::Value value(mlir::AffineExpr expr, mlir::ValueRange loops);
  Address address(const Element &element, mlir::ValueRange loops);
  mlir::Value load(const Element &element, mlir::ValueRange loops,
                   int64_t lanes = 1);
  void store(mlir::Value x, const Element &element, mlir::ValueRange loops);

private:
  mlir::Value index(mlir::Value number);
  std::optional<unsigned> layerOf(llvm::ArrayRef<mlir::AffineExpr> at);
  mlir::Value partOf(mlir::Value memory, unsigned dim, mlir::Value layer);
  mlir::Value numberOfTurn(mlir::Value number, mlir::ValueRange loops);

  llvm::DenseMap<mlir::Value, mlir::Value> numbers;
  llvm::DenseMap<mlir::Value, Rows> held;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, mlir::Value> layers;
  mlir::Operation *lastNumber = nullptr;
};

/// The number of elements of a 16-byte access, or fewer, so that an element's
/// place is a multiple of that number whenever `loop` is.
int64_t accessWidth(const Launch::Place &place, unsigned loop, int64_t terms);

} // namespace cria::simt
