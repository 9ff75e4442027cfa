/// A file of tensors, of whatever format, by its checked header.
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/File.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// A tensor as a header describes it.
struct TensorEntry {
  std::string name;
  std::string typeName;      // the format's: "BF16"
  std::optional<DType> type; // nothing for types that weights cannot have
  Shape shape;
  uint64_t begin = 0; // from the start of the file
  uint64_t end = 0;
  /// How the tensor differs from Hugging Face's checkpoints, in GGUF; see
  /// Elements.h. The rows of this many heads, 0 for none, are in the order of
  /// the pairs that rope rotates; 1 is added to each element.
  uint64_t interleavedHeads = 0;
  bool plusOne = false;

  /// Whether the elements are those of Hugging Face's checkpoints, in order.
  bool isPlain() const { return interleavedHeads == 0 && !plusOne; }
};

/// A file and its tensors, in the order of their offsets.
struct TensorFile {
  File file;
  std::vector<TensorEntry> tensors;
};

} // namespace cria
