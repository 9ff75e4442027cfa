/// How the elements of GGUF files differ from those of Hugging Face's
/// checkpoints.
///
/// llama.cpp rotates pairs of neighbouring rows of queries and keys; Hugging
/// Face rotates pairs of rows that are half a head apart. So the converter to
/// GGUF stores the D rows of a head of Llama in the order 0, D/2, 1, D/2 + 1,
/// ... This code reads row j D/2 + i of a head from row 2 i + j. Gemma's norms
/// multiply by 1 + weight; the converter adds the 1, and this code subtracts
/// it. The decays of states are stored as -exp(A_log). Of Qwen 3.5, heads of
/// values are stored in turns of the keys that they share: the first of each
/// key, then the second of each.
#pragma once

#include "runtime/weights/Elements.h"

namespace cria::gguf {

/// Hugging Face's rows of the tensor `x`, whose heads have `rows` rows of
/// `columns` elements, in pairs.
ElementsPtr interleaved(ElementsPtr x, uint64_t rows, uint64_t columns);

/// The elements of `x`, each less 1; computed in f32.
ElementsPtr minusOne(ElementsPtr x);

/// The logarithms of what is -x; computed in f32.
ElementsPtr logOfMinus(ElementsPtr x);

/// Parts of a tensor that a file has in turns.
struct Turns {
  uint64_t first;        // elements in front of the parts, which stay
  uint64_t size;         // elements of a part
  uint64_t groups, each; // groups, and parts of a group
};

/// The parts of `x` group by group. The file has the first part of each group,
/// then the second; as often as the tensor has all parts. `block` elements of
/// the file have a scale together.
ElementsPtr inGroups(ElementsPtr x, Turns turns, uint64_t block);

} // namespace cria::gguf
