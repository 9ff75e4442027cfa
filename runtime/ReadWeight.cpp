#include "runtime/ReadWeight.h"

#include "runtime/Floats.h"

#include <algorithm>
#include <vector>

namespace cria {

/// The same for a weight that is packed.
static Status readPacked(const Checkpoint &checkpoint,
                         const Binding::Source &source, std::byte *to,
                         uint64_t begin, uint64_t end) {
  DType type = source.weight->type;
  uint64_t first = source.weight->firstElement();
  std::vector<float> values(std::min(source.packed->stretch(), end - begin));
  auto *from = reinterpret_cast<const std::byte *>(values.data());
  while (begin < end) {
    uint64_t count = std::min(uint64_t(values.size()), end - begin);
    Status status =
        source.packed->read(checkpoint, values.data(), first + begin, count);
    if (!status.ok())
      return status;
    if (source.update)
      source.update->merge(from, DType::F32, to, type, first + begin, count);
    else
      convertElements(from, DType::F32, to, type, count);
    to += bytesOf(type, count);
    begin += count;
  }
  return Status();
}

Status readWeight(const Checkpoint &checkpoint, const Binding::Source &source,
                  std::byte *to, uint64_t begin, uint64_t end) {
  if (source.packed)
    return readPacked(checkpoint, source, to, begin, end);
  const File &file = checkpoint.files()[source.place->file].file;
  DType from = *source.place->tensor->type, type = source.weight->type;
  if (from == type && !source.update)
    return file.read(source.begin + bytesOf(type, begin), to,
                     bytesOf(type, end - begin));
  static constexpr uint64_t most = 16 * mostBlockElements;
  std::byte block[most * sizeof(double)];
  uint64_t first = source.weight->firstElement();
  while (begin < end) {
    uint64_t count = std::min(most, end - begin);
    Status status = file.read(source.begin + bytesOf(from, begin), block,
                              bytesOf(from, count));
    if (!status.ok())
      return status;
    if (source.update)
      source.update->merge(block, from, to, type, first + begin, count);
    else
      convertElements(block, from, to, type, count);
    to += bytesOf(type, count);
    begin += count;
  }
  return Status();
}

} // namespace cria
