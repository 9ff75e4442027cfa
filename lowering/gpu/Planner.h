/// Turns an entry function into a host plan, and its kernels into code.
#pragma once

#include "lowering/gpu/Emitters.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace cria::cuda {

/// Device scratch of all entries: [0, zeroed) is zero when a session begins.
/// Entries do not run at once, but the zeroed part is theirs alone.
class Arena {
public:
  static constexpr int64_t kZeroed = 64 << 10, kAlign = 256;

  /// Offsets of new memory; entries share what is not zeroed.
  int64_t zeroed(int64_t size);
  int64_t temporary(int64_t size);
  /// Another entry begins.
  void restart() { next = kZeroed; }

  int64_t bytes() const { return highest; }
  int64_t zeroed() const { return nextZeroed; }
  /// More was asked for than is kept zeroed.
  bool overflown() const { return nextZeroed > kZeroed; }

private:
  int64_t nextZeroed = 0, next = kZeroed, highest = kZeroed;
};

/// A layer: a constant, or counted by a loop.
struct LayerNumber {
  int64_t first = 0;
  /// Layers from one turn to the next; 0 outside of loops.
  int64_t step = 0;
};

class Planner : public Places {
public:
  Planner(mlir::ModuleOp module, mlir::Block &kernels, Arena &arena,
          int64_t maxTokens);

  /// The steps of an entry; fails with an error on what has no kernel.
  mlir::FailureOr<mlir::ArrayAttr> plan(mlir::func::FuncOp entry);

  /// The steps that draw an id from the last row of logits that `entry` gives.
  mlir::ArrayAttr planSampling(mlir::func::FuncOp entry);

  Place placeOf(mlir::Value tensor) override;
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
  void placeArguments(mlir::func::FuncOp entry);
  mlir::LogicalResult placeResults(llama::KernelOp kernel);
  Place weight(mlir::Operation *symbol, int64_t part, mlir::Value layer);
  mlir::DictionaryAttr arg(llvm::StringRef kind, int64_t value);
  bool isReadAfter(mlir::Value tensor, mlir::Operation *op);
  mlir::LogicalResult checkRows(llama::KernelOp kernel);
  /// Of the most rows, stored as `element` or else as the tensor's own type.
  int64_t bytesOf(mlir::Value tensor, mlir::Type element = {}) const;

  mlir::ModuleOp module;
  mlir::Block &kernels;
  Arena &arena;
  int64_t tokens;
  llvm::DenseMap<mlir::Operation *, int64_t> slots;
  llvm::DenseMap<mlir::Value, Place> places;
  std::string entryName;
};

} // namespace cria::cuda
