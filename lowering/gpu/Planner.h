/// Turns an entry function into a host plan, and its kernels into code.
#pragma once

#include "lowering/gpu/Emitters.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace cria::cuda {

/// Device scratch memory. Entries share it, since they never run at the same
/// time. Only the bytes [0, zeroed), which are zero when a session begins, are
/// not shared: each entry has a part of its own there.
class Arena {
public:
  static constexpr int64_t kZeroed = 64 << 10, kAlign = 256;

  /// The offset of new memory.
  int64_t zeroed(int64_t size);
  int64_t temporary(int64_t size);
  /// The memory asked for from here on is another entry's.
  void restart() { next = kZeroed; }

  int64_t bytes() const { return highest; }
  int64_t zeroed() const { return nextZeroed; }
  /// More zeroed memory was asked for than there is.
  bool overflown() const { return nextZeroed > kZeroed; }

private:
  int64_t nextZeroed = 0, next = kZeroed, highest = kZeroed;
};

/// Plans one entry function: (ids, position, first, [source,] caches...) ->
/// ([logits,] caches...). A plan can launch kernels and nothing else: no
/// tensor is copied or computed between them. So every other op must only say
/// which memory a tensor is, and whatever it cannot say is an error.
class Planner : public Places {
public:
  Planner(mlir::func::FuncOp entry, mlir::Block &kernels, Arena &arena,
          int64_t maxTokens);

  /// The entry's steps; fails with an error on what has no kernel.
  mlir::FailureOr<mlir::ArrayAttr> plan();

  /// The steps that draw an id from the last row of the entry's logits.
  mlir::ArrayAttr planSampling();

  Place placeOf(mlir::Value tensor) override;
  Extent rowsOf(mlir::Value tensor) override;
  Place cachePlace(mlir::Value cache, mlir::Value layer) override;
  Place named(llvm::StringRef kind) override;
  Place temporary(int64_t bytes) override;
  Place zeroed(int64_t bytes) override;

private:
  mlir::LogicalResult walk(mlir::Block &block, Steps &steps);
  mlir::LogicalResult visit(mlir::Operation &op, Steps &steps);
  mlir::LogicalResult visitLoop(mlir::scf::ForOp loop, Steps &steps);
  mlir::LogicalResult visitKernel(llama::KernelOp kernel, Steps &steps);
  mlir::FailureOr<Steps> emit(llama::KernelOp kernel);
  mlir::FailureOr<Steps> emitFused(const Target &target, KernelSpec &spec);
  mlir::FailureOr<Steps> emitProducts(const Target &target, KernelSpec &spec);
  void placeNormalized(const KernelSpec &spec);
  mlir::LogicalResult placeArguments();
  mlir::LogicalResult placeReshape(mlir::Operation *reshape);
  mlir::LogicalResult placeSlice(mlir::tensor::ExtractSliceOp slice);
  mlir::LogicalResult placeInside(llama::KernelOp kernel);
  mlir::LogicalResult placeResults(llama::KernelOp kernel);
  Place weight(mlir::Operation *symbol, int64_t part, mlir::Value layer);
  mlir::DictionaryAttr arg(llvm::StringRef kind, int64_t value);
  bool isReadAfter(mlir::Value tensor, mlir::Operation *op);
  bool isTokenCount(mlir::OpFoldResult size);
  bool isLogitCount(mlir::OpFoldResult size);
  mlir::LogicalResult checkScalars(mlir::Operation *op);
  mlir::LogicalResult checkCaches(llama::KernelOp kernel);
  mlir::LogicalResult checkResults();
  /// The size of a tensor with the largest number of rows, stored as `element`
  /// or, by default, as the tensor's own type.
  int64_t bytesOf(mlir::Value tensor, mlir::Type element = {}) const;

  mlir::func::FuncOp entry;
  mlir::ModuleOp module;
  mlir::Block &kernels;
  Arena &arena;
  int64_t tokens;
  llvm::DenseMap<mlir::Operation *, int64_t> slots;
  llvm::DenseMap<mlir::Value, Place> places;
  /// A value that a kernel reads from memory and that lies in none.
  mlir::Value unplaced;
};

} // namespace cria::cuda
