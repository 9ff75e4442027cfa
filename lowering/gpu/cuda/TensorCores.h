/// Instructions for NVIDIA's tensor cores: products of fragments, loads of
/// matrices from shared memory, and asynchronous copies into shared memory.
#pragma once

#include "lowering/gpu/build/KernelBuilder.h"

namespace cria::cuda {

/// Begins to copy 4, 8 or 16 bytes from device to shared memory (cp.async). If
/// `exists` is given and false, zeros are written instead. Returns the copy.
mlir::Operation *copyAsync(simt::KernelBuilder &b, simt::Address to,
                           simt::Address from, int64_t bytes,
                           mlir::Value exists = {});
/// Makes a group of the thread's copies since the last commit.
void commitCopies(simt::KernelBuilder &b);
/// Waits until all groups but the thread's last `groups` have arrived.
void awaitCopies(simt::KernelBuilder &b, int64_t groups);

/// Loads four matrices from shared memory (ldmatrix.x4): 8 x 8 elements of 16
/// bits or 8 x 16 bytes. Lane i gives the address of row i % 8 of matrix i / 8.
llvm::SmallVector<mlir::Value> loadMatrices(simt::KernelBuilder &b,
                                            simt::Address address,
                                            bool transposed = false);
/// sums += x * w, of bf16 or f16 in the fragments of mma.sync.m16n8k16 (PTX
/// ISA). x is 16 x 16 in 4 registers. For each 8 columns w has 2 registers and
/// the sums have 4. Pairs of elements are i32, sums are f32.
void mma(simt::KernelBuilder &b, mlir::Type element, mlir::ValueRange x,
         mlir::ValueRange w, mlir::MutableArrayRef<mlir::Value> sums);

/// x * w, 16 x 32 and 32 x 8 signed bytes in the fragments of mma.sync.m16n8k32
/// (PTX ISA). x has 4 registers, w has 2, and the sums are 4 of i32.
llvm::SmallVector<mlir::Value> mmaBytes(simt::KernelBuilder &b,
                                        mlir::ValueRange x, mlir::ValueRange w);

/// Limits registers so that at least this many blocks fit a multiprocessor
/// (.minnctapersm). Otherwise ptxas decides, and may spill to fit more blocks.
void fitBlocks(simt::KernelBuilder &b, int64_t blocks);

/// A barrier for the threads of a warp (bar.warp.sync).
void warpBarrier(simt::KernelBuilder &b);

/// sum + the products of four signed bytes of x with four of w, in i32 (dp4a).
mlir::Value dotBytes(simt::KernelBuilder &b, mlir::Value x, mlir::Value w,
                     mlir::Value sum);

} // namespace cria::cuda
