#include "runtime/weights/gguf/Order.h"

#include "runtime/base/Json.h"

#include <algorithm>

namespace cria::gguf {

namespace {

class Interleaved : public Decorator {
public:
  Interleaved(ElementsPtr x, uint64_t rows, uint64_t columns)
      : Decorator(std::move(x)), rows(rows), columns(columns) {}

  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;

private:
  const uint64_t rows, columns;
};

class MinusOne : public Decorator {
public:
  explicit MinusOne(ElementsPtr x) : Decorator(std::move(x)) {}

  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;
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

std::optional<PackedWeight> findTurns(const Checkpoint &checkpoint,
                                      const std::string &name,
                                      const WeightSpec &weight,
                                      std::string &problem) {
  const Checkpoint::Tensor *even = checkpoint.find(name + "[0%2]"),
                           *odd = checkpoint.find(name + "[1%2]");
  Shape half = weight.wholeShape();
  if ((!even && !odd) || half.size() < 2)
    return std::nullopt;
  half[1] /= 2;
  auto fits = [&](const Checkpoint::Tensor *place) {
    return place && place->tensor->type && place->tensor->shape == half;
  };
  if (!fits(even) || !fits(odd)) {
    problem = concat({"expected two tensors in place of ", quote(name),
                      ", floats of ", shapeText(half), " each"});
    return std::nullopt;
  }
  auto elements = std::make_unique<Turns>(checkpoint.elements(*even),
                                          checkpoint.elements(*odd),
                                          half.size() > 2 ? half[2] : 1);
  return PackedWeight{std::move(elements),
                      {even, odd},
                      /*format=*/"",
                      /*reading=*/"in turns",
                      *even->tensor->type};
}

Status Interleaved::write(uint64_t first, uint64_t count, DType type,
                          std::byte *to) const {
  Status status;
  for (uint64_t end = first + count; first < end && status.ok();) {
    uint64_t row = first / columns, column = first % columns, at = row % rows;
    uint64_t from = row - at + at % (rows / 2) * 2 + at / (rows / 2);
    uint64_t part = std::min(columns - column, end - first);
    status = inner->write(from * columns + column, part, type, to);
    to += bytesOf(type, part);
    first += part;
  }
  return status;
}

Status MinusOne::write(uint64_t first, uint64_t count, DType type,
                       std::byte *to) const {
  auto compute = [&](uint64_t first, uint64_t count, float *values) {
    Status status = inner->write(first, count, DType::F32,
                                 reinterpret_cast<std::byte *>(values));
    for (uint64_t i = 0; i < count && status.ok(); ++i)
      values[i] -= 1;
    return status;
  };
  return writeFloats(first, count, piece(), type, to, compute);
}

ElementsPtr interleaved(ElementsPtr x, uint64_t rows, uint64_t columns) {
  return std::make_unique<Interleaved>(std::move(x), rows, columns);
}

ElementsPtr minusOne(ElementsPtr x) {
  return std::make_unique<MinusOne>(std::move(x));
}

} // namespace cria::gguf
