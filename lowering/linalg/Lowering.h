/// The state of lowering one entry function from llama to linalg.
#pragma once

#include "dialect/Dialect.h"
#include "lowering/linalg/Blocks.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"

#include <array>

namespace cria {

/// Lowers the ops of one function, an entry or a kernel, in order.
///
/// Every llama value has a stored form, of its declared type. The result of a
/// linear, and a norm of it, is first made in f32, its wide form; ops that
/// compute read the wide form where there is one, so that within a kernel a
/// value is rounded once, where it leaves.
class FunctionLowering {
public:
  /// What an entry returns beside the caches, in order, both f32.
  enum Output { Logits, Hidden, kOutputs };
  /// Where each goes, which has room for more rows; null for none.
  using Outputs = std::array<mlir::Value, kOutputs>;

  /// Lowers at the builder's insertion point, in `function`; what the entry
  /// `entry` returns goes into `outputs`.
  FunctionLowering(LinalgBuilder &builder, mlir::func::FuncOp function,
                   llvm::StringRef entry, Outputs outputs)
      : b(builder), function(function), entry(entry), outputs(outputs) {}

  void lowerBlock(mlir::Block &block);
  void set(mlir::Value old, mlir::Value stored) { storedForm[old] = stored; }
  mlir::Value stored(mlir::Value old);
  /// The memory of an output with `old`, which is what the function returns
  /// for it, in it.
  mlir::Value storeOutput(Output output, mlir::Value old);

private:
  mlir::Value any(mlir::Value old);
  mlir::Value writable(mlir::Value old);
  void lower(mlir::Operation *op);
  void lower(llama::GetWeightOp op);
  void lower(llama::GetRopeOp op);
  void lower(llama::EmbedOp op);
  void lower(llama::RMSNormOp op);
  void lower(llama::LayerNormOp op);
  void lower(llama::LinearOp op);
  void lower(llama::HeadOp op);
  void lower(llama::SwiGLUOp op);
  void lower(llama::ActivateOp op);
  void lower(llama::AddRowsOp op);
  void lower(llama::AllReduceOp op);
  void lower(llama::ResidualOp op);
  void lower(llama::RopeOp op);
  void lower(llama::KVAppendOp op);
  void lower(llama::GQAOp op);
  void lower(llama::KernelOp op);
  void lowerLoop(mlir::scf::ForOp loop);
  bool lowerReshape(mlir::Operation *op);
  mlir::Value rowMean(mlir::Value rows, LinalgBuilder::Payload term);
  mlir::Value normDestination(mlir::Operation *norm, mlir::Value x);
  void setNorm(mlir::Operation *norm, mlir::Value result);
  mlir::Value outputSlice(Output output, mlir::Value rows);
  mlir::Value intoOutput(Output output, mlir::Value rows);
  mlir::func::FuncOp lowerKernel(llama::KernelOp op,
                                 llvm::SmallVectorImpl<mlir::Value> &operands);
  mlir::Value matmul(mlir::Value oldX, mlir::Value oldWeight, mlir::Value into);
  BlockRows quantized(mlir::Value x);
  mlir::Value rowsAt(mlir::Value table, mlir::Value oldPosition,
                     llvm::ArrayRef<mlir::OpFoldResult> sizes);
  mlir::Value addVector(mlir::Value rows, mlir::Value vector);
  mlir::Value call(mlir::StringRef symbol, mlir::Type type,
                   mlir::ValueRange operands);

  LinalgBuilder &b;
  mlir::func::FuncOp function;
  /// The entry's name, which its kernels' end with.
  llvm::StringRef entry;
  Outputs outputs;
  llvm::DenseMap<mlir::Value, mlir::Value> storedForm, wideForm;
  /// What is multiplied with quantized weights, in blocks.
  llvm::DenseMap<mlir::Value, BlockRows> inBlocks;
  /// Of a table, the rows at the positions of tokens.
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, mlir::Value> gatheredRows;
};

/// What `llama.gqa` reads: a query of any form (T, H, D), caches (L, KVH, S,
/// D), or with `pages` paged ones. With `over` keys below it are visible,
/// without those of the text.
struct AttentionOperands {
  mlir::Value query, keys, values, layer, position, pages, over;
};

/// Attention by its definition: (T, H, D). See Attention.cpp.
mlir::Value lowerAttention(LinalgBuilder &b, AttentionOperands operands,
                           llama::GQAOp op);

} // namespace cria
