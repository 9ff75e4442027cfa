/// The elements of a checkpoint's tensors, in the order and form of Hugging
/// Face's checkpoints.
///
/// llama.cpp rotates pairs of neighbouring rows of queries and keys; Hugging
/// Face rotates pairs of rows that are half a head apart. So the converter to
/// GGUF stores the D rows of a head of Llama in the order 0, D/2, 1, D/2 + 1,
/// ... This code reads row j D/2 + i of a head from row 2 i + j. Gemma's norms
/// multiply by 1 + weight; the converter adds the 1, and this code subtracts
/// it.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/weights/TensorFile.h"
#include "runtime/weights/lora/LoraUpdate.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cria {

/// Calls `sink(place, first, count)` for contiguous stretches of the elements
/// [first, first + count) of `tensor`, in order: `count` elements from `first`
/// on, which begin at element `place` of the file's tensor.
template <typename Sink>
void forEachStretch(const TensorEntry &tensor, uint64_t first, uint64_t count,
                    Sink sink) {
  if (tensor.interleavedHeads == 0)
    return sink(first, first, count);
  uint64_t rows = tensor.shape[0], columns = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i)
    columns *= tensor.shape[i];
  uint64_t size = rows / tensor.interleavedHeads, half = size / 2;
  for (uint64_t end = first + count; first < end;) {
    uint64_t row = first / columns, column = first % columns, at = row % size;
    uint64_t from = row - at + at % half * 2 + at / half;
    uint64_t taken = std::min(columns - column, end - first);
    sink(from * columns + column, first, taken);
    first += taken;
  }
}

/// Converts a stretch at `from` to `type`: elements [first, first + count),
/// whole blocks. Adds `update` unless it is null.
void convertStretch(const TensorEntry &tensor, const std::byte *from,
                    uint64_t first, uint64_t count, const LoraUpdate *update,
                    std::byte *to, DType type);

/// All elements of a tensor of a float type, in f32.
Result<std::vector<float>> readFloats(const File &file,
                                      const TensorEntry &tensor);

} // namespace cria
