/// Weights in blocks, kept in a file so that only the first start quantizes
/// them.
///
/// The file's name is a hash of the sources of the blocks: the checkpoint's
/// files (path, size, times, tensors) and the weights (tensor, shape, type).
/// The file is written whole or not at all, and holds
///
///   CacheHeader, `identity` bytes of text, zeros up to a page, blocks,
///   a checksum of each million elements, a checksum of these
///
/// where the text lists these sources. A file that is truncated or damaged,
/// that has other sources, or that others may have written (see OwnFolder) is
/// not used but written again. Nothing here is an error: without a file that
/// can be written, weights are quantized each time, and a warning says why.
#pragma once

#include "runtime/base/files/File.h"
#include "runtime/weights/Binding.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/Source.h"

#include <memory>
#include <string>

namespace cria {

/// Finds or makes the file in `folder` with the quantized weights of `binding`,
/// and lets the binding read them from it; `progress` hears how much is made.
/// The binding refers to the file. Null, and maybe a warning in the binding, if
/// there is none: `folder` is empty, nothing is quantized, or adapters change
/// the weights, as `changed` says.
std::unique_ptr<const File> keepQuantized(const std::string &folder,
                                          const Checkpoint &checkpoint,
                                          bool changed, Binding &binding,
                                          const Progress &progress);

} // namespace cria
