/// What the formats of packed weights share; see Packed.h.
#pragma once

#include "runtime/weights/packed/Packed.h"

#include <memory>
#include <string>
#include <vector>

namespace cria {

/// The elements of a weight in several tensors. Immutable once it is
/// loaded.
///
/// The formats' files are optimized for speed, for `read` alone. What runs once
/// for a weight is marked as cold, which keeps it small.
class PackedElements : public Elements {
public:
  /// Takes the weight for stored as `given` says. Returns what contradicts this
  /// in the shapes of the tensors; empty if nothing does.
  virtual std::string use(const PackedScheme &given) = 0;

  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;

  /// "gptq".
  const char *format() const;

  /// How the weight is stored.
  PackedScheme scheme = {};
  /// All tensors; the first has the elements.
  std::vector<const Checkpoint::Tensor *> tensors;

protected:
  explicit PackedElements(const Checkpoint &checkpoint)
      : checkpoint(checkpoint) {}

  /// Writes the elements [first, first + count), counted row by row.
  virtual Status read(uint64_t first, uint64_t count, float *to) const = 0;

  const File &fileOf(const Checkpoint::Tensor &place) const {
    return checkpoint.files()[place.file].file;
  }

private:
  const Checkpoint &checkpoint;
};

/// The weight `name`, a tensor of F8_E4M3 at `place`; null if it is wrong, as
/// `problem` then says.
[[gnu::cold]] std::unique_ptr<PackedElements>
findFp8(const Checkpoint &checkpoint, const std::string &name,
        const Checkpoint::Tensor &place, std::string &problem);

/// The weight X.weight of `shape` whose elements are 4-bit integers in groups,
/// in X.qweight or X.weight_packed, where X is `module`; null if there is none,
/// or if it is wrong, as `problem` then says.
[[gnu::cold]] std::unique_ptr<PackedElements>
findInt4(const Checkpoint &checkpoint, const std::string &module,
         const Shape &shape, std::string &problem);

/// The weight `name` of `shape` (E, N, K) whose elements are 4-bit floats; null
/// if there is none, or if it is wrong, as `problem` then says.
[[gnu::cold]] std::unique_ptr<PackedElements>
findMxfp4(const Checkpoint &checkpoint, const std::string &name,
          const Shape &shape, std::string &problem);

} // namespace cria
