/// One interface to the elements of a weight, wherever they come from.
///
/// A tensor of a file is `stored`. Whatever else a weight needs is a decorator
/// around that, made where the option lives:
///
///   core    stored(file, begin, type)   slice(x, weight)
///           transposed(x, weight)      turns(even, odd, columns)
///   gguf/   interleaved(x, ...)     minusOne(x)
///   packed/ int4 and fp8, in place of `stored`
///   lora/   plus(x, update)
///   random/ randomElements(...), in place of `stored`
///
/// So a weight of a rank, from a GGUF file, with an adapter, is
/// slice(plus(interleaved(stored(...), ...), update), weight): the decorators
/// inside `slice` know the elements of the whole tensor.
///
/// Rounding: elements are rounded once, at the end. A decorator that changes
/// values asks for f32, computes in f32, and rounds to the type that it is
/// asked for itself. A decorator that moves elements passes the type on. If
/// nothing changes values, bytes of the right type go from the file to their
/// place.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/base/DType.h"
#include "runtime/base/FunctionRef.h"
#include "runtime/base/Status.h"
#include "runtime/base/files/File.h"
#include "runtime/weights/TensorFile.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// A place in a file.
struct FilePlace {
  const File *file;
  uint64_t begin;
};

/// The elements of one weight, or of one tensor, row by row, in the order of
/// Hugging Face's checkpoints.
class Elements {
public:
  virtual ~Elements() = default;

  /// Where compiled code can read the elements as `type` without a copy;
  /// nothing if nowhere.
  virtual std::optional<FilePlace> inPlace(DType) const { return {}; }

  /// Reads what `write` needs besides the elements, such as scales. Called
  /// once, before the first `write`. Returns a warning, "" for none.
  virtual Result<std::string> load() { return std::string(); }

  /// Writes elements [first, first + count), whole blocks, as `type`. `to` is
  /// aligned for `type`. Many threads may call this at once.
  ///
  /// Files are read, not mapped: a page fault for every 4 KiB that is used once
  /// costs more, and a file that shrinks meanwhile is an error, not a signal.
  virtual Status write(uint64_t first, uint64_t count, DType type,
                       std::byte *to) const = 0;

  /// How many elements to write at once where they are needed piece by piece; a
  /// multiple of mostBlockElements.
  virtual uint64_t piece() const { return defaultPiece; }

protected:
  static constexpr uint64_t defaultPiece = 16 * mostBlockElements;
};

using ElementsPtr = std::unique_ptr<Elements>;

/// Elements that are made of others.
class Decorator : public Elements {
public:
  Result<std::string> load() override { return inner->load(); }
  uint64_t piece() const override { return inner->piece(); }

protected:
  explicit Decorator(ElementsPtr inner) : inner(std::move(inner)) {}

  const ElementsPtr inner;
};

/// The elements that lie in `file`, which must outlive them, from byte `begin`
/// on, as `type`.
ElementsPtr stored(const File &file, uint64_t begin, DType type);

/// The rows and columns of the tensor `x` that tensor `index` of `weight` has;
/// `x` itself if they are all.
ElementsPtr slice(ElementsPtr x, const WeightSpec &weight, uint64_t index);

/// The elements of the tensor `x` of `weight` as the rows of its matrices, if
/// it has their columns in place of rows; else `x` itself.
ElementsPtr transposed(ElementsPtr x, const WeightSpec &weight);

/// Rows of `columns` elements in turns: `even` has rows 0, 2, ..., `odd` rows
/// 1, 3, ... So GGUF files part gate and up of gpt-oss's experts.
ElementsPtr turns(ElementsPtr even, ElementsPtr odd, uint64_t columns);

/// All elements of a tensor of a float type, in f32.
Result<std::vector<float>> readFloats(const File &file,
                                      const TensorEntry &tensor);

/// Writes elements [first, first + count) as `type`: `compute` computes them in
/// f32, at most `piece` at once, and each is rounded once.
Status writeFloats(
    uint64_t first, uint64_t count, uint64_t piece, DType type, std::byte *to,
    FunctionRef<Status(uint64_t first, uint64_t count, float *to)> compute);

} // namespace cria
