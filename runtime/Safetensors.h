/// One file of the safetensors format, by its exact rules: the header is read
/// and checked whole, the tensors are left where they lie.
#pragma once

#include "runtime/Status.h"
#include "runtime/TensorFile.h"

#include <string>

namespace cria {

/// Opens the file at `path` and checks its header; reads nothing else.
Result<TensorFile> openSafetensors(const std::string &path);

} // namespace cria
