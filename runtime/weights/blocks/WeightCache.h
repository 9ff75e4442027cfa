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

#include "runtime/base/File.h"
#include "runtime/weights/Binding.h"
#include "runtime/weights/Checkpoint.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cria {

class WeightCache {
public:
  /// The file in `folder` with the quantized weights of `binding`, read or
  /// made. Nothing, and maybe a warning in `binding`, if there is none:
  /// `folder` is empty, nothing is quantized, or adapters are merged.
  static std::optional<WeightCache> open(const std::string &folder,
                                         const Checkpoint &checkpoint,
                                         Binding &binding,
                                         const Progress &progress);

  const File &file() const { return blocks; }
  /// Where the blocks of a slot begin in the file; nothing if the slot's weight
  /// is not quantized.
  std::optional<uint64_t> find(uint64_t slot) const;

private:
  class Maker;

  WeightCache(File file, std::map<uint64_t, uint64_t> offsets)
      : blocks(std::move(file)), offsets(std::move(offsets)) {}

  File blocks;
  std::map<uint64_t, uint64_t> offsets; // by slot
};

} // namespace cria
