/// Gathers ops of one block into a `llama.kernel`; all fusion passes use it.
#pragma once

#include "dialect/Dialect.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/SetVector.h"

namespace cria {

/// Ops of one block that are to become one kernel. A pass inserts the ops that
/// end the kernel, then absorbs producers.
class KernelGroup {
public:
  /// `pass` is the argument of the pass: the category of its remarks.
  KernelGroup(mlir::Block *block, llvm::StringRef pass)
      : block(block), pass(pass) {}

  /// Adds an op of the block. If ops outside of the kernel use its results, the
  /// kernel yields them.
  void insert(mlir::Operation *op) { ops.insert(op); }

  /// The op that defines the value, if the op is one of `Ops`, in this block
  /// and in no kernel; else null.
  template <typename... Ops> mlir::Operation *producer(mlir::Value value) {
    mlir::Operation *op = value.getDefiningOp();
    return op && op->getBlock() == block && mlir::isa<Ops...>(op) ? op
                                                                  : nullptr;
  }

  /// Adds the value's producer, one of `Ops`, and returns it. Returns null if
  /// there is none, or, after a missed-optimization remark, if ops outside of
  /// the group use its results.
  template <typename... Ops> mlir::Operation *absorb(mlir::Value value) {
    mlir::Operation *op = producer<Ops...>(value);
    return op && tryInsert(op) ? op : nullptr;
  }

  /// Adds the norm that every linear of the group reads.
  void absorbNorm();

  /// Moves the ops into a kernel at the place of the last op, and emits a
  /// passed remark. The kernel's name comes from the locations (kernelName), or
  /// is `fallback`. Returns null, after emitting a missed-optimization remark,
  /// if moving the ops together would reorder a use before its definition.
  llama::KernelOp outline(llvm::StringRef fallback);

  /// Emits a remark that says why an op was left out.
  void missed(mlir::Operation *op, llvm::StringRef reason);

  /// The same of the op of this block that defines the value, if there is one
  /// and it is in no kernel.
  void missedProducer(mlir::Value value, llvm::StringRef reason) {
    mlir::Operation *op = value.getDefiningOp();
    if (op && op->getBlock() == block && !mlir::isa<llama::KernelOp>(op))
      missed(op, reason);
  }

  bool empty() const { return ops.empty(); }

private:
  bool tryInsert(mlir::Operation *op);
  bool findDependents(llvm::SmallVectorImpl<mlir::Operation *> &dependents);
  mlir::remark::RemarkOpts remarkOptions(llvm::StringRef name);

  mlir::Block *block;
  llvm::StringRef pass;
  llvm::SetVector<mlir::Operation *> ops;
};

/// Blocks that hold ops outside of kernels.
llvm::SmallVector<mlir::Block *> blocksOutsideKernels(mlir::Operation *root);

/// A kernel's name, made from the module paths in the locations of the ops that
/// read weights or caches (embed, linear, expert_linear, head, gqa): the common
/// path, then the different parts. "model", "*" and numbers are dropped;
/// "self_attn" becomes "attn", "embed_tokens" becomes "embed", "lm_head"
/// becomes "head", "o_proj" becomes "out", and "_proj" is dropped:
///
///   model.layers.*.self_attn.{q,k,v}_proj      layers_attn_qkv
///   model.layers.*.mlp.{gate,up}_proj          layers_mlp_gate_up
///   model.layers.*.self_attn.o_proj            layers_attn_out
///
/// If there are no such ops, the name is made from the last op's path and
/// mnemonic. It is empty if locations have no path.
std::string kernelName(llvm::ArrayRef<mlir::Operation *> ops);

/// The same name as a module path: the common path of the ops, then the
/// different parts, such as "model.layers.*.self_attn.qkv".
std::string kernelPath(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace cria
