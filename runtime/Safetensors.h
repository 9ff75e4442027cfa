/// One file of the safetensors format, by its exact rules: the header is read
/// and checked whole, the tensors are left where they lie.
#pragma once

#include "runtime/DType.h"
#include "runtime/File.h"
#include "runtime/Status.h"

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
};

/// The checked header of a file.
struct Safetensors {
  File file;
  std::vector<TensorEntry> tensors; // in the order of their offsets
};

/// Opens the file at `path` and checks its header; reads nothing else.
Result<Safetensors> openSafetensors(const std::string &path);

} // namespace cria
