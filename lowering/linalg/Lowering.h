/// The state of lowering one entry function from llama to linalg.
#pragma once

#include "dialect/Dialect.h"
#include "lowering/linalg/Blocks.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"

#include <array>

namespace cria {

/// A product in parts has multiples of these terms and columns, as AMX's tiles
/// have 32 terms and 16 columns.
inline constexpr int64_t kTermsOfParts = 32, kColumnsOfParts = 16;

/// The rows of a weight that a product with widened weights has at least: two
/// of AMX's tiles.
inline constexpr int64_t kWidenedRows = 32;

/// How the tokens of a prompt are computed, where each could be computed by
/// itself.
struct PromptForm {
  int64_t chunk = 1; ///< tokens of a recurrence at once; 1: a loop over tokens
  /// Whether a chunk's products take each number as the sum of two of bf16.
  /// Recurrences of f32, and of sizes that are no such multiples, then become
  /// loops over tokens.
  bool inParts = false;
  /// Rows of these types multiply numbers of weights in blocks that are rounded
  /// to the same type; other rows are rounded to blocks, and multiply integers.
  llvm::SmallVector<mlir::Type, 2> widened = {};
};

/// Lowers the ops of one function, an entry or a kernel, in order.
///
/// Every llama value has a stored form, of its declared type. The result of a
/// linear, and the norm of this result, is first made in f32: this is the
/// value's wide form. An op that computes reads the wide form if there is one.
/// So a value is rounded once in a kernel, when it is stored.
class FunctionLowering {
public:
  /// The results of an entry other than the caches, in order. Both are f32.
  enum Output { Logits, Hidden, kOutputs };
  /// The memory of each result, with room for `chunk` rows; null if the entry
  /// does not return the result.
  using Outputs = std::array<mlir::Value, kOutputs>;

  /// Lowers at the builder's insertion point, in `function`. The results of the
  /// entry `entry` are written into `outputs`.
  FunctionLowering(LinalgBuilder &builder, mlir::func::FuncOp function,
                   llvm::StringRef entry, Outputs outputs, PromptForm prompt)
      : b(builder), function(function), entry(entry), outputs(outputs),
        prompt(std::move(prompt)) {}

  void lowerBlock(mlir::Block &block);
  void set(mlir::Value old, mlir::Value stored) { storedForm[old] = stored; }
  mlir::Value stored(mlir::Value old);
  /// The memory of an output, after `old` is stored in it. `old` is the value
  /// that the llama function returns as this output.
  mlir::Value storeOutput(Output output, mlir::Value old);
  /// Sets the attribute `cria.chunk` of the function's kernels, the most rows
  /// of a tensor in a call: as many as the function has tokens, or more where a
  /// token has several rows. The function must be complete.
  void boundKernels();

private:
  mlir::Value any(mlir::Value old);
  mlir::Value writable(mlir::Value old);
  void lower(mlir::Operation *op);
  void lower(llama::GetWeightOp op);
  void lower(llama::GetRopeOp op);
  void lower(llama::EmbedOp op);
  void lower(llama::RMSNormOp op);
  void lower(llama::SquareSumsOp op);
  void lower(llama::LayerNormOp op);
  void lower(llama::LinearOp op);
  void lower(llama::HeadOp op);
  void lower(llama::SwiGLUOp op);
  void lower(llama::ActivateOp op);
  void lower(llama::AddRowsOp op);
  void lower(llama::SetRowsOp op);
  void lower(llama::AllReduceOp op);
  void lower(llama::ResidualOp op);
  void lower(llama::HeadLinearOp op);
  void lower(llama::RopeOp op);
  void lower(llama::KVAppendOp op);
  void lower(llama::GQAOp op);
  void lower(llama::CausalConvOp op);
  void lower(llama::DeltaRuleOp op);
  void lower(llama::SelectiveScanOp op);
  void lower(llama::RouteOp op);
  void lower(llama::ExpertLinearOp op);
  void lower(llama::CombineOp op);
  void lower(llama::KernelOp op);
  void lowerLoop(mlir::scf::ForOp loop);
  bool lowerReshape(mlir::Operation *op);
  void lower(mlir::tensor::SplatOp op);
  void lower(mlir::tensor::ConcatOp op);
  void lowerElementwise(mlir::Operation *op);
  mlir::Value rowSum(mlir::Value rows, LinalgBuilder::Payload term);
  mlir::Value softmaxRows(mlir::Value x);
  mlir::Value normalized(llama::RouteOp op, mlir::Value w);
  template <typename Op>
  void lowerRecurrence(Op op, mlir::Value query, mlir::Value key,
                       mlir::Value share, mlir::Value skip);
  mlir::Value unitRows(mlir::Value x, llvm::APFloat eps, double scale);
  mlir::Value rowMean(mlir::Value rows, LinalgBuilder::Payload term);
  mlir::Value meanSquare(llama::RMSNormOp op, mlir::Value x);
  mlir::Value normDestination(mlir::Operation *norm, mlir::Value x);
  void setNorm(mlir::Operation *norm, mlir::Value result);
  mlir::Value outputSlice(Output output, mlir::Value rows);
  mlir::Value intoOutput(Output output, mlir::Value rows);
  mlir::func::FuncOp lowerKernel(llama::KernelOp op,
                                 llvm::SmallVectorImpl<mlir::Value> &operands);
  mlir::Value matmul(mlir::Value oldX, mlir::Value oldWeight, mlir::Value into,
                     bool widens);
  BlockRows quantized(mlir::Value x);
  mlir::Value inHalves(mlir::Value x);
  bool widensWeights(mlir::Value rows, mlir::ShapedType weight);
  mlir::Value rowsAt(mlir::Value table, mlir::Value oldPosition,
                     llvm::ArrayRef<mlir::OpFoldResult> sizes);
  mlir::Value fromRows(
      mlir::Value x, mlir::Value table, mlir::Value position, uint64_t first,
      mlir::Type type,
      llvm::function_ref<mlir::Value(mlir::Value, mlir::Value, mlir::Value)>
          make);
  mlir::Value addVector(mlir::Value rows, mlir::Value vector);
  mlir::Value call(mlir::StringRef symbol, mlir::Type type,
                   mlir::ValueRange operands);

  LinalgBuilder &b;
  mlir::func::FuncOp function;
  /// The entry's name. The names of the entry's kernels end with it.
  llvm::StringRef entry;
  Outputs outputs;
  PromptForm prompt;
  /// The kernels, and the numbers of rows of their tensors.
  llvm::SmallVector<
      std::pair<mlir::func::FuncOp, llvm::SmallVector<mlir::Value>>>
      kernels;
  llvm::DenseMap<mlir::Value, mlir::Value> storedForm, wideForm;
  /// The left operands of products with quantized weights, in blocks.
  llvm::DenseMap<mlir::Value, BlockRows> inBlocks;
  /// The same in f32, rounded to bf16.
  llvm::DenseMap<mlir::Value, mlir::Value> rounded;
  /// The rows of a table at the positions of the tokens. The key is (table,
  /// positions).
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, mlir::Value> gatheredRows;
};

/// Whether an op of the llama phase writes its result into an output of the
/// entry: the head, or the last norm. `op` may be null.
bool writesOutput(mlir::Operation *op);

/// The operands of `llama.gqa`: a query (T, H, D) in its wide or stored form,
/// and caches (L, KVH, S, D). If `pages` is set, the caches are paged. If
/// `over` is set, the tokens see the keys below `over`, and not those of their
/// own text.
struct AttentionOperands {
  mlir::Value query, keys, values, layer, position, pages, over, ahead, sinks;
};

/// Attention by its definition: (T, H, D). See Attention.cpp.
mlir::Value lowerAttention(LinalgBuilder &b, AttentionOperands operands,
                           llama::GQAOp op);

} // namespace cria
