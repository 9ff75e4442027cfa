/// The schedules that NVIDIA's GPUs run, the fastest first.
#pragma once

#include "lowering/gpu/schedules/Choose.h"

namespace cria::cuda {

const simt::Schedules &schedules();

// Products of few rows, of floats (GemvFloats.cpp), of integers in blocks
// (GemvBlocks.cpp) and of floats in blocks (GemvWidened.cpp). Bulk copies may
// not fit the problem: then null.
std::unique_ptr<simt::Gemv> makeFloatGemv(simt::Launch &launch,
                                          const simt::GemvProblem &problem,
                                          const simt::GemvSizes &sizes);
std::unique_ptr<simt::Gemv> makeBulkFloatGemv(simt::Launch &launch,
                                              const simt::GemvProblem &problem,
                                              const simt::GemvSizes &sizes);
std::unique_ptr<simt::Gemv> makeBlockGemv(simt::Launch &launch,
                                          const simt::GemvProblem &problem,
                                          const simt::GemvSizes &sizes);
std::unique_ptr<simt::Gemv> makeWidenedGemv(simt::Launch &launch,
                                            const simt::GemvProblem &problem,
                                            const simt::GemvSizes &sizes);

// Products of many rows, of 16 bits or with widened weights by mma.sync, alone
// or with the blocks of a tile in a cluster (GemmMma.cpp); both by warpgroups
// (GemmWgmma.cpp, GemmWgmmaBlocks.cpp); of integers in blocks (GemmBlocks.cpp).
simt::GemmKernel makeMmaGemm(const simt::GemmProblem &problem,
                             const llvm::Twine &name);
simt::GemmKernel makeClusterGemm(const simt::GemmProblem &problem,
                                 const llvm::Twine &name);
simt::GemmKernel makeWgmmaGemm(const simt::GemmProblem &problem,
                               const llvm::Twine &name);
simt::GemmKernel makeWidenedWgmmaGemm(const simt::GemmProblem &problem,
                                      const llvm::Twine &name);
simt::GemmKernel makeBlockGemm(const simt::GemmProblem &problem,
                               const llvm::Twine &name);

// Attention of many tokens on tensor cores (AttentionMma.cpp), by warpgroups
// (AttentionWgmma.cpp), and of wide keys that values are parts of
// (AttentionLatent.cpp); of a token at a time (AttentionScan.cpp), with grouped
// heads on tensor cores (AttentionScanMma.cpp).
bool takesAttentionMma(const simt::KernelFunction &of,
                       const simt::AttentionMemory &in);
bool takesAttentionWgmma(const simt::KernelFunction &of,
                         const simt::AttentionMemory &in);
bool takesAttentionLatent(const simt::KernelFunction &of,
                          const simt::AttentionMemory &in);
bool takesAttentionScanMma(const simt::KernelFunction &of,
                           const simt::AttentionMemory &in);
mlir::gpu::GPUFuncOp emitAttentionMma(simt::KernelFunction &of,
                                      const simt::AttentionMemory &in,
                                      const simt::Tuning &tuning);
mlir::gpu::GPUFuncOp emitAttentionWgmma(simt::KernelFunction &of,
                                        const simt::AttentionMemory &in,
                                        const simt::Tuning &tuning);
mlir::gpu::GPUFuncOp emitAttentionLatent(simt::KernelFunction &of,
                                         const simt::AttentionMemory &in,
                                         const simt::Tuning &tuning);
mlir::gpu::GPUFuncOp emitAttentionScanMma(simt::KernelFunction &of,
                                          const simt::AttentionMemory &in,
                                          const simt::Tuning &tuning);
mlir::gpu::GPUFuncOp emitAttentionScan(simt::KernelFunction &of,
                                       const simt::AttentionMemory &in,
                                       const simt::Tuning &tuning);

// A matrix that each token updates, in prompts by chunks of tokens on tensor
// cores (RecurrenceMma.cpp).
bool emitRecurrenceMma(simt::Recurrence &in, const simt::Tuning &tuning);

} // namespace cria::cuda
