/// What schedules take for granted of linalg.
///
/// A schedule is written with the kernels of models in mind, but any program
/// may reach it: a graph that slices columns with a stride, a text that a pass
/// of upstream or a person has changed. So each thing that a schedule takes for
/// granted is one function here, with the sentence that a remark says where it
/// does not hold. Then another schedule is tried, in the end the one for any op
/// (LowerLinalgToLaunches.cpp). test/lowering/preconditions.mlir has a kernel
/// that breaks each one, under the name of the function.
///
///   hasMemory       an address is row * (size of the last dimension) + column
///   rowInMemory     the terms of a product lie side by side in memory
///   beginAtWords    tensor cores multiply words of two 16-bit numbers; others
///                   are multiplied one by one (GemmFma.cpp), or copied first
///   isOwnRow        a block of threads computes row i of the input for row i
///                   of the product
///   areBlockRows    the same for rows of blocks of integers
///   hasEvenBlocks   rows of blocks begin at words; scales are copied in pairs
///   roundsWeights   tensor cores multiply numbers of 16 bits
///   areOfOneForm    a launch has one type and one row length for its weights
///   readSameRows    tiles in one grid take the input's rows from one place
///   isOfOwnRow      the statistics that a statistic reads are known before it
///   fitsGrid        a grid has as many blocks as the constant loops say
///   areApart        launches, and threads of one launch, store in any order
///   readsAtWide     (Evaluator.cpp) lanes read neighbours; if they read places
///                   of their own, elements are computed one by one
///   isProduct       (kernel/Product.h) factors are multiplied in the type of
///                   the sum
///   canReduce       (Evaluator.h) terms are combined in any order
///   canEvaluate     (Evaluator.h) a payload can be cloned into a kernel
///   isOfToken       (Tokens.cpp) a block has what it computed of its own token
///   step            (Recurrence.h) a token changes its matrix, and makes its
///                   row, by linear functions: chunks of tokens are products
///   canGroup        (Groups.h) the products of a unit have one matrix, chosen
///                   by the row and the loop over its choices
#pragma once

#include "lowering/gpu/schedules/Work.h"

namespace cria::simt {

/// Whether elements have 8, 16, 32 or 64 bits.
bool isOfBytes(mlir::Value tensor);

/// Whether a kernel can compute the address of each element of a tensor: the
/// elements have whole bytes, and only the first size may be dynamic.
bool hasMemory(mlir::Value tensor);
inline constexpr llvm::StringLiteral kNoMemory =
    "a tensor has elements that are not of 8, 16, 32 or 64 bits, or a size "
    "after its first that is not constant";

/// The place in memory of element k of a row, if the row's elements lie side by
/// side: the last coordinate is k plus what does not depend on k, the others do
/// not depend on k. `box` is the part's loops and k.
std::optional<Element> rowInMemory(Elements &elements, const Element &element,
                                   llvm::ArrayRef<Size> box);
inline constexpr llvm::StringLiteral kNoRow =
    "the terms of a product do not lie side by side in memory";

/// Whether a row that is in memory begins at a word of four bytes.
bool beginsAtWord(Elements &elements, const Element &element,
                  llvm::ArrayRef<Size> box);
/// Whether the rows of all operands of a work begin at such words.
bool beginAtWords(Elements &elements, const Work &work);

/// Whether an element is (row, k) of its tensor, or (0, k) without a loop over
/// rows.
bool isOwnRow(const Elements &elements, const Element &element,
              llvm::ArrayRef<Size> box, std::optional<unsigned> row);
inline constexpr llvm::StringLiteral kNoOwnRow =
    "a product reads other rows of its input than those of its result";

/// Whether the blocks of a row, (..., 0, 0) of a tensor (..., blocks, bytes),
/// are all in memory, one after the other, from a multiple of their number on.
/// Scales are (..., blocks): `inner` is how many places a row has, 1 or 2.
bool areBlockRows(Elements &elements, const Element &first,
                  llvm::ArrayRef<Size> box, size_t inner);
inline constexpr llvm::StringLiteral kNoBlockRows =
    "the blocks of a row do not lie side by side in memory";

/// Whether a row of blocks has an even number of them, for many rows.
bool hasEvenBlocks(const Dot &dot);
inline constexpr llvm::StringLiteral kOddBlocks =
    "many rows are multiplied with rows of an odd number of blocks";

/// Whether the numbers of widened weights are rounded to the type of the rows,
/// for many rows.
inline bool roundsWeights(const Dot &dot) {
  return !dot.isWidened() || dot.rounds;
}
inline constexpr llvm::StringLiteral kNotRounded =
    "many rows are multiplied with floats in blocks that are not rounded";

/// Whether the weights of two products have the same type, and rows of the same
/// length. With `ofType`, only the types are compared.
bool areOfOneForm(Elements &elements, const Work &a, const Dot &x,
                  const Work &b, const Dot &y, bool ofType = false);
inline constexpr llvm::StringLiteral kNotOneForm =
    "its products' weights differ in type or in the length of their rows";

/// Whether the works' rows of the same number read the same row of the input.
bool readSameRows(Elements &elements, const Work &a, const Work &b);

/// Whether a statistic that a term reads is the same for all terms. `term` is
/// the loop over terms.
bool isOfOwnRow(const Element &statistic, unsigned term);
inline constexpr llvm::StringLiteral kNotOfOwnRow =
    "a statistic of rows reads another statistic for each of its terms";

/// Whether a grid can count a part's blocks: 31 bits along x, 16 along y. The
/// part's first `rows` loops are a block each.
bool fitsGrid(const Part &part, unsigned rows);
inline constexpr llvm::StringLiteral kNoGrid =
    "a grid cannot count so many rows or elements";

/// Whether no two of the parts store in the same place.
bool areApart(Elements &elements, llvm::ArrayRef<Part> parts);

} // namespace cria::simt
