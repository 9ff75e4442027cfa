/// Products of many rows (prefill), and the schedules that they are chosen
/// from.
#pragma once

#include "lowering/gpu/schedules/GemmTile.h"

namespace cria::simt {

/// Emits products that are bound by operations, not by bytes. All works have
/// sums of the same products.
void emitGemm(KernelFunction &function, const llvm::Twine &suffix,
              llvm::ArrayRef<Work> works);
/// Whether emitGemm takes weights in blocks whose rows have `terms` elements:
/// each row must begin at a word (4 bytes).
bool takesBlockGemm(int64_t terms);

/// By fma, any types (GemmFma.cpp).
std::unique_ptr<GemmTile> makeFmaGemm(Launch &launch,
                                      llvm::ArrayRef<Work> works);
/// On tensor cores (GemmMma.cpp), for the types and sizes that `takesMma`
/// accepts and for inputs of the numbers of rows in kMmaRows[rows].
std::unique_ptr<GemmTile> makeMmaGemm(Launch &launch,
                                      llvm::ArrayRef<Work> works, size_t rows);
/// The same in a launch of its own, in which the blocks of a tile are a cluster
/// (sm_90a). Null if each tile has one block.
std::unique_ptr<GemmTile> makeClusterGemm(KernelFunction &function,
                                          const llvm::Twine &suffix,
                                          llvm::ArrayRef<Work> works,
                                          size_t rows,
                                          std::unique_ptr<Launch> &launch);
bool takesMma(mlir::Type input, mlir::Type weight, int64_t k);
/// By warpgroups, for inputs of the numbers of rows in the last of kMmaRows, in
/// a launch of its own (GemmWgmma.cpp). Null if operands cannot be copied in
/// boxes.
std::unique_ptr<GemmTile> makeWgmmaGemm(KernelFunction &function,
                                        const llvm::Twine &suffix,
                                        llvm::ArrayRef<Work> works,
                                        std::unique_ptr<Launch> &launch);
/// Weights in blocks that `takesBlockGemm` accepts, on tensor cores
/// (GemmBlocks.cpp).
std::unique_ptr<GemmTile> makeBlockGemm(Launch &launch,
                                        llvm::ArrayRef<Work> works);

} // namespace cria::simt
