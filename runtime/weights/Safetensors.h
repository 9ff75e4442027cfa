/// One file of the safetensors format. The header is read and checked whole, by
/// the format's exact rules; the tensors are not read.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/weights/TensorFile.h"

#include <string>

namespace cria {

/// Opens the file at `path` and checks its header; reads nothing else.
Result<TensorFile> openSafetensors(const std::string &path);

} // namespace cria
