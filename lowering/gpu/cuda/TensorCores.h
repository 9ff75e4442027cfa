/// Instructions for NVIDIA's tensor cores: products of fragments, loads of
/// matrices from shared memory, and asynchronous copies into shared memory.
#pragma once

#include "lowering/gpu/KernelBuilder.h"

namespace cria::cuda {

/// Begins to copy 4, 8 or 16 bytes from device to shared memory; zeros, where
/// there is an `exists` that is false (cp.async).
void copyAsync(simt::KernelBuilder &b, simt::Address to, simt::Address from,
               int64_t bytes, mlir::Value exists = {});
/// The thread's copies since the last commit are a group.
void commitCopies(simt::KernelBuilder &b);
/// Until all but the thread's last `groups` have landed.
void awaitCopies(simt::KernelBuilder &b, int64_t groups);

/// Four 8 x 8 matrices of 16-bit elements, or 8 x 16 of bytes, from shared
/// memory: lane i names the address of row i % 8 of matrix i / 8 (ldmatrix.x4).
llvm::SmallVector<mlir::Value> loadMatrices(simt::KernelBuilder &b,
                                            simt::Address address,
                                            bool transposed = false);
/// sums += x * w, of bf16 or f16 in the fragments of the PTX ISA's
/// mma.sync.m16n8k16: x is 16 x 16, 4 registers; for each 8 columns w has 2 and
/// the sums 4. Pairs are i32, sums f32.
void mma(simt::KernelBuilder &b, mlir::Type element, mlir::ValueRange x,
         mlir::ValueRange w, mlir::MutableArrayRef<mlir::Value> sums);

/// x * w, 16 x 32 and 32 x 8 signed bytes in the fragments of the PTX ISA's
/// mma.sync.m16n8k32: 4 and 2 registers; the sums are 4 of i32.
llvm::SmallVector<mlir::Value> mmaBytes(simt::KernelBuilder &b,
                                        mlir::ValueRange x, mlir::ValueRange w);

/// Asks for registers for at least this many blocks on a multiprocessor
/// (.minnctapersm). Otherwise ptxas decides, and may spill to fit more blocks.
void fitBlocks(simt::KernelBuilder &b, int64_t blocks);

/// A barrier for the threads of a warp (bar.warp.sync).
void warpBarrier(simt::KernelBuilder &b);

/// sum + the products of four signed bytes of x with four of w, in i32 (dp4a).
mlir::Value dotBytes(simt::KernelBuilder &b, mlir::Value x, mlir::Value w,
                     mlir::Value sum);

} // namespace cria::cuda
