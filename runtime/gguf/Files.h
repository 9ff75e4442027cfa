/// A GGUF checkpoint: one file, or the parts that it was split into.
#pragma once

#include "runtime/gguf/Header.h"

namespace cria::gguf {

/// A file and its header.
struct OpenFile {
  File file;
  Header header;
};

/// Whether `path` names a GGUF file: it ends in ".gguf".
bool isGguf(const std::string &path);

/// Opens `path`. If it is a part of several (model-00002-of-00003.gguf), no
/// matter which, opens them all, in order. The first has the metadata.
Result<std::vector<OpenFile>> openFiles(const std::string &path);

} // namespace cria::gguf
