/// Products of many rows (prefill), and the schedules that they are chosen
/// from.
#pragma once

#include "lowering/gpu/schedules/GemmTile.h"

namespace cria::simt {

/// Products bound by operations. The works' sums are of the same products.
void emitGemm(KernelFunction &function, const llvm::Twine &suffix,
              llvm::ArrayRef<Work> works);
/// Whether emitGemm takes weights in blocks with so many terms: rows must begin
/// at words.
bool takesBlockGemm(int64_t terms);

/// By fma, any types (GemmFma.cpp).
std::unique_ptr<GemmTile> makeFmaGemm(Launch &launch,
                                      llvm::ArrayRef<Work> works);
/// On tensor cores (GemmMma.cpp), for what `takesMma` says; for inputs as
/// kMmaRows[rows] says.
std::unique_ptr<GemmTile> makeMmaGemm(Launch &launch,
                                      llvm::ArrayRef<Work> works, size_t rows);
/// The same in a launch of its own, where the blocks of a tile are a cluster
/// (sm_90a). Null where each tile has one block.
std::unique_ptr<GemmTile> makeClusterGemm(KernelFunction &function,
                                          const llvm::Twine &suffix,
                                          llvm::ArrayRef<Work> works,
                                          size_t rows,
                                          std::unique_ptr<Launch> &launch);
bool takesMma(mlir::Type input, mlir::Type weight, int64_t k);
/// By warpgroups, for the many rows of the last of kMmaRows, in a launch of its
/// own (GemmWgmma.cpp). Null where operands cannot be copied in boxes.
std::unique_ptr<GemmTile> makeWgmmaGemm(KernelFunction &function,
                                        const llvm::Twine &suffix,
                                        llvm::ArrayRef<Work> works,
                                        std::unique_ptr<Launch> &launch);
/// Weights in blocks, on tensor cores (GemmBlocks.cpp); takesBlockGemm
/// says which.
std::unique_ptr<GemmTile> makeBlockGemm(Launch &launch,
                                        llvm::ArrayRef<Work> works);

} // namespace cria::simt
