#include "runtime/weights/ReadWeight.h"

#include "runtime/weights/Elements.h"
#include "runtime/weights/Floats.h"

#include <algorithm>
#include <vector>

namespace cria {

/// Reads elements [begin, end) of a packed tensor.
static Status readPacked(const Checkpoint &checkpoint,
                         const Binding::Source &source, std::byte *to,
                         uint64_t begin, uint64_t end) {
  DType type = source.weight->type;
  std::vector<float> values(std::min(source.packed->stretch(), end - begin));
  auto *from = reinterpret_cast<const std::byte *>(values.data());
  while (begin < end) {
    uint64_t count = std::min(uint64_t(values.size()), end - begin);
    Status status =
        source.packed->read(checkpoint, values.data(), begin, count);
    if (!status.ok())
      return status;
    if (source.update)
      source.update->merge(from, DType::F32, to, type, begin, count);
    else
      convertElements(from, DType::F32, to, type, count);
    to += bytesOf(type, count);
    begin += count;
  }
  return Status();
}

/// Reads a stretch of the elements of a tensor; see forEachStretch.
static Status readStretch(const File &file, const Binding::Source &source,
                          std::byte *to, uint64_t place, uint64_t first,
                          uint64_t count) {
  const TensorEntry &tensor = *source.place->tensor;
  DType from = *tensor.type, type = source.weight->type;
  if (from == type && !source.update && !tensor.plusOne)
    return file.read(tensor.begin + bytesOf(from, place), to,
                     bytesOf(type, count));
  static constexpr uint64_t most = 16 * mostBlockElements;
  std::byte block[most * sizeof(double)];
  for (uint64_t done = 0; done < count; done += most) {
    uint64_t part = std::min(most, count - done);
    Status status = file.read(tensor.begin + bytesOf(from, place + done), block,
                              bytesOf(from, part));
    if (!status.ok())
      return status;
    convertStretch(tensor, block, first + done, part, source.update,
                   to + bytesOf(type, done), type);
  }
  return Status();
}

/// Reads elements [begin, begin + size) of the tensor.
static Status readElements(const Checkpoint &checkpoint,
                           const Binding::Source &source, std::byte *to,
                           uint64_t begin, uint64_t size) {
  if (source.packed)
    return readPacked(checkpoint, source, to, begin, begin + size);
  const File &file = checkpoint.files()[source.place->file].file;
  Status status;
  forEachStretch(*source.place->tensor, begin, size,
                 [&](uint64_t place, uint64_t first, uint64_t count) {
                   if (status.ok())
                     status =
                         readStretch(file, source, to, place, first, count);
                   to += bytesOf(source.weight->type, count);
                 });
  return status;
}

Status readWeight(const Checkpoint &checkpoint, const Binding::Source &source,
                  std::byte *to, uint64_t begin, uint64_t end) {
  const WeightSpec &weight = *source.weight;
  Status status;
  weight.forEachStretch(begin, end, [&](uint64_t first, uint64_t count) {
    if (status.ok())
      status = readElements(checkpoint, source, to, first, count);
    to += bytesOf(weight.type, count);
  });
  return status;
}

} // namespace cria
