/// The kernels' skeletons, each in a file of its own. An emitter builds the
/// kernels of one region and returns the host's steps.
#pragma once

#include "lowering/gpu/KernelSpec.h"

namespace cria::cuda {

/// Where kernels are built, and what they are called.
struct Target {
  mlir::Block &module;
  Places &places;
  /// The kernel's name with the entry's behind it.
  std::string name;
};

using Steps = llvm::SmallVector<mlir::Attribute>;

/// Products of few rows (decode), bound by the bytes of the weights: a warp
/// takes some rows of weights, lanes run along them (Gemv.cpp).
Steps emitGemv(const Target &target, const KernelSpec &spec);

/// Products of many rows (prefill), bound by operations (Gemm.cpp). A norm must
/// have been computed before, to `normalized`.
Steps emitGemm(const Target &target, const KernelSpec &spec,
               const Place *normalized);

/// One behind the last key that tokens without an order see.
mlir::Value endOfKeys(Launch &launch, llama::GQAOp op);

/// Attention over the cache (Attention.cpp), for head sizes that
/// `takesAttention` knows: multiples of 8 up to 256, and others.
bool takesAttention(llama::GQAOp op);
Steps emitAttention(const Target &target, llama::GQAOp op, mlir::Value result);

/// The same for many tokens, on tensor cores (AttentionMma.cpp): 16-bit types,
/// head sizes that are multiples of 16 up to 128.
bool takesAttentionMma(llama::GQAOp op);
Steps emitAttentionMma(const Target &target, llama::GQAOp op,
                       mlir::Value result);

/// One thread an element or a rotated pair: outputs without products
/// (Pointwise.cpp).
Steps emitPointwise(const Target &target, const KernelSpec &spec);
/// Rows of a table by ids (Pointwise.cpp).
Steps emitEmbed(const Target &target, llama::EmbedOp op, mlir::Value result);

/// A norm of each row to a place of its own (Norm.cpp).
Steps emitNorm(const Target &target, mlir::Operation *norm, Place result);
/// An output that reads a norm of a matmul's result, which another launch has
/// stored (Norm.cpp).
Steps emitFinish(const Target &target, const Output &output);
/// Normalizes row `row` of a norm's input in one block into `result`, which
/// has the norm's size and element type: shared or device memory, row
/// `resultRow`. Threads must meet at a barrier before they read it.
void normalizeRow(Launch &launch, mlir::Operation *norm, mlir::Value row,
                  const Rows &result, mlir::Value resultRow);

/// An id drawn from a row of `vocab` logits (Sample.cpp), as CriaSampling says.
Steps emitSampling(const Target &target, mlir::Location loc, int64_t vocab);

/// The most rows of products that emitGemv takes, and the most bytes of
/// normalized input it holds in shared memory.
inline constexpr int64_t kGemvRows = 8, kGemvShared = 40 << 10;

} // namespace cria::cuda
