/// How the elements of GGUF files differ from those of Hugging Face's
/// checkpoints.
///
/// llama.cpp rotates pairs of neighbouring rows of queries and keys; Hugging
/// Face rotates pairs of rows that are half a head apart. So the converter to
/// GGUF stores the D rows of a head of Llama in the order 0, D/2, 1, D/2 + 1,
/// ... This code reads row j D/2 + i of a head from row 2 i + j. Gemma's norms
/// multiply by 1 + weight; the converter adds the 1, and this code subtracts
/// it.
#pragma once

#include "runtime/weights/Elements.h"

namespace cria::gguf {

/// Hugging Face's rows of the tensor `x`, whose heads have `rows` rows of
/// `columns` elements, in pairs.
ElementsPtr interleaved(ElementsPtr x, uint64_t rows, uint64_t columns);

/// The elements of `x`, each less 1; computed in f32.
ElementsPtr minusOne(ElementsPtr x);

} // namespace cria::gguf
