/// A file of tensors, of whatever format, by its checked header.
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/files/File.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cria {

class Elements;

/// A tensor as a header describes it.
struct TensorEntry {
  std::string name;
  std::string typeName;      // the format's: "BF16"
  std::optional<DType> type; // nothing for types that weights cannot have
  Shape shape;
  uint64_t begin = 0; // from the start of the file
  uint64_t end = 0;
  /// Makes the elements of Hugging Face's checkpoint of the stored ones; null
  /// if these are the same.
  std::function<std::unique_ptr<Elements>(std::unique_ptr<Elements>)> decorate;
};

/// A file and its tensors, in the order of their offsets.
struct TensorFile {
  File file;
  std::vector<TensorEntry> tensors;
};

} // namespace cria
