#include "runtime/weights/Elements.h"

#include "runtime/weights/Floats.h"

#include <algorithm>

namespace cria {

namespace {

class Stored : public Elements {
public:
  Stored(const File &file, uint64_t begin, DType type)
      : file(file), begin(begin), stored(type) {}

  std::optional<FilePlace> inPlace(DType type) const override;
  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;

private:
  const File &file;
  const uint64_t begin;
  const DType stored;
};

/// Rows, or columns, of a tensor.
class Slice : public Decorator {
public:
  Slice(ElementsPtr x, const WeightSpec &weight, uint64_t index);

  std::optional<FilePlace> inPlace(DType type) const override;
  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;

private:
  uint64_t start;       // the first element, in the tensor
  uint64_t width;       // elements of a row of the weight; if all columns are
                        // used, elements of the weight
  uint64_t between = 0; // elements of the tensor between two rows
};

/// Matrices (N, K), one after the other, of `inner`, which has (K, N) each.
class Transposed : public Decorator {
public:
  Transposed(ElementsPtr x, uint64_t n, uint64_t k)
      : Decorator(std::move(x)), n(n), k(k) {}

  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;
  /// Many rows at once: then few elements of `inner` lie apart.
  uint64_t piece() const override { return k * mostBlockElements; }

private:
  Status read(uint64_t first, uint64_t count, float *to) const;

  const uint64_t n, k;
};

/// Rows in turns: the even ones of one tensor, the odd ones of another.
class Turns : public Elements {
public:
  Turns(ElementsPtr even, ElementsPtr odd, uint64_t columns)
      : halves{std::move(even), std::move(odd)}, columns(columns) {}

  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;

private:
  Status readNumbers(uint64_t first, uint64_t count, float *to) const;

  const ElementsPtr halves[2];
  const uint64_t columns;
};

} // namespace

std::optional<FilePlace> Stored::inPlace(DType type) const {
  if (type != stored || begin % alignmentOf(type) != 0)
    return std::nullopt;
  return FilePlace{&file, begin};
}

Status Stored::write(uint64_t first, uint64_t count, DType type,
                     std::byte *to) const {
  uint64_t from = begin + bytesOf(stored, first);
  if (type == stored) // converting blocks would round them again
    return file.read(from, to, bytesOf(type, count));
  std::byte bytes[defaultPiece * sizeof(double)];
  for (uint64_t done = 0; done < count; done += defaultPiece) {
    uint64_t part = std::min(defaultPiece, count - done);
    Status status =
        file.read(from + bytesOf(stored, done), bytes, bytesOf(stored, part));
    if (!status.ok())
      return status;
    convertElements(bytes, stored, to + bytesOf(type, done), type, part);
  }
  return Status();
}

ElementsPtr stored(const File &file, uint64_t begin, DType type) {
  return std::make_unique<Stored>(file, begin, type);
}

Slice::Slice(ElementsPtr x, const WeightSpec &weight, uint64_t index)
    : Decorator(std::move(x)), width(weight.elements()) {
  uint64_t row = weight.columns.of;
  if (row) {
    width = weight.shape[1];
    between = row - width;
  } else {
    row = weight.shape[0] ? width / weight.shape[0] : 0;
  }
  uint64_t rows = weight.rows.of ? weight.rows.of : weight.shape[0];
  start = (weight.place(index) * rows + weight.rows.first) * row +
          weight.columns.first;
}

std::optional<FilePlace> Slice::inPlace(DType type) const {
  std::optional<FilePlace> place = inner->inPlace(type);
  if (!place || between)
    return std::nullopt;
  return FilePlace{place->file, place->begin + bytesOf(type, start)};
}

Status Slice::write(uint64_t first, uint64_t count, DType type,
                    std::byte *to) const {
  if (!between)
    return inner->write(start + first, count, type, to);
  Status status;
  for (uint64_t end = first + count; first < end && status.ok();) {
    uint64_t part = std::min(width - first % width, end - first);
    status =
        inner->write(start + first + first / width * between, part, type, to);
    to += bytesOf(type, part);
    first += part;
  }
  return status;
}

ElementsPtr slice(ElementsPtr x, const WeightSpec &weight, uint64_t index) {
  if (!weight.rows.of && !weight.columns.of && !weight.stacked)
    return x;
  return std::make_unique<Slice>(std::move(x), weight, index);
}

/// Reads rows column by column, because `inner` has the elements of a column
/// next to each other.
Status Transposed::read(uint64_t first, uint64_t count, float *to) const {
  std::vector<float> column;
  Status status;
  for (uint64_t end = first + count; first < end && status.ok();) {
    uint64_t row = first / k, last = std::min(end, (row / n + 1) * n * k);
    column.resize((last - 1) / k + 1 - row);
    for (uint64_t i = 0; i < k && status.ok(); ++i) {
      status = inner->write((row / n * k + i) * n + row % n, column.size(),
                            DType::F32,
                            reinterpret_cast<std::byte *>(column.data()));
      for (uint64_t r = 0, at = row * k + i; at < last; ++r, at += k)
        if (at >= first)
          to[at - first] = column[r];
    }
    to += last - first;
    first = last;
  }
  return status;
}

Status Transposed::write(uint64_t first, uint64_t count, DType type,
                         std::byte *to) const {
  auto compute = [&](uint64_t first, uint64_t count, float *values) {
    return read(first, count, values);
  };
  return writeFloats(first, count, piece(), type, to, compute);
}

ElementsPtr transposed(ElementsPtr x, const WeightSpec &weight) {
  if (!weight.transposed)
    return x;
  Shape shape = weight.wholeShape();
  return std::make_unique<Transposed>(std::move(x), shape.end()[-2],
                                      shape.end()[-1]);
}

/// Reads rows of one number each.
Status Turns::readNumbers(uint64_t first, uint64_t count, float *to) const {
  uint64_t begin = first / 2, end = (first + count + 1) / 2;
  std::vector<float> half(end - begin);
  Status status;
  for (uint64_t odd = 0; odd < 2 && status.ok(); ++odd) {
    status = halves[odd]->write(begin, half.size(), DType::F32,
                                reinterpret_cast<std::byte *>(half.data()));
    for (uint64_t i = begin; i < end; ++i)
      if (uint64_t at = 2 * i + odd; at >= first && at < first + count)
        to[at - first] = half[i - begin];
  }
  return status;
}

Status Turns::write(uint64_t first, uint64_t count, DType type,
                    std::byte *to) const {
  auto compute = [&](uint64_t first, uint64_t count, float *values) {
    return readNumbers(first, count, values);
  };
  if (columns == 1)
    return writeFloats(first, count, piece(), type, to, compute);
  Status status;
  for (uint64_t end = first + count; first < end && status.ok();) {
    uint64_t row = first / columns, column = first % columns;
    uint64_t part = std::min(columns - column, end - first);
    status = halves[row % 2]->write(row / 2 * columns + column, part, type, to);
    to += bytesOf(type, part);
    first += part;
  }
  return status;
}

ElementsPtr turns(ElementsPtr even, ElementsPtr odd, uint64_t columns) {
  return std::make_unique<Turns>(std::move(even), std::move(odd), columns);
}

Result<std::vector<float>> readFloats(const File &file,
                                      const TensorEntry &tensor) {
  DType type = *tensor.type;
  std::vector<float> values(elementsOf(type, tensor.end - tensor.begin));
  Status status = stored(file, tensor.begin, type)
                      ->write(0, values.size(), DType::F32,
                              reinterpret_cast<std::byte *>(values.data()));
  if (!status.ok())
    return status;
  return values;
}

Status writeFloats(
    uint64_t first, uint64_t count, uint64_t piece, DType type, std::byte *to,
    FunctionRef<Status(uint64_t first, uint64_t count, float *to)> compute) {
  static constexpr uint64_t few = 16 * mostBlockElements;
  float some[few];
  std::vector<float> many;
  bool isDirect = type == DType::F32;
  if (std::min(piece, count) > few && !isDirect)
    many.resize(std::min(piece, count));
  for (uint64_t end = first + count; first < end; first += piece) {
    uint64_t part = std::min(piece, end - first);
    float *values = isDirect       ? reinterpret_cast<float *>(to)
                    : many.empty() ? some
                                   : many.data();
    if (Status status = compute(first, part, values); !status.ok())
      return status;
    if (!isDirect)
      convertElements(reinterpret_cast<const std::byte *>(values), DType::F32,
                      to, type, part);
    to += bytesOf(type, part);
  }
  return Status();
}

} // namespace cria
