#include "runtime/weights/gguf/Order.h"

#include <algorithm>
#include <cmath>

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

/// A function of each element, in f32.
class Mapped : public Decorator {
public:
  Mapped(ElementsPtr x, float (*function)(float))
      : Decorator(std::move(x)), function(function) {}

  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;

private:
  float (*const function)(float);
};

class InGroups : public Decorator {
public:
  InGroups(ElementsPtr x, Turns turns, uint64_t block)
      : Decorator(std::move(x)), turns(turns), block(block) {}

  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;

private:
  uint64_t placeOf(uint64_t element) const;
  Status read(uint64_t first, uint64_t count, float *to) const;

  const Turns turns;
  const uint64_t block;
};

} // namespace

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

Status Mapped::write(uint64_t first, uint64_t count, DType type,
                     std::byte *to) const {
  auto compute = [&](uint64_t first, uint64_t count, float *values) {
    Status status = inner->write(first, count, DType::F32,
                                 reinterpret_cast<std::byte *>(values));
    for (uint64_t i = 0; i < count && status.ok(); ++i)
      values[i] = function(values[i]);
    return status;
  };
  return writeFloats(first, count, piece(), type, to, compute);
}

/// Where the file has an element.
uint64_t InGroups::placeOf(uint64_t element) const {
  if (element < turns.first)
    return element;
  uint64_t at = element - turns.first, size = turns.size,
           all = turns.groups * turns.each * size, part = at % all / size;
  return element - at % all + at % size +
         (part % turns.each * turns.groups + part / turns.each) * size;
}

/// Reads parts that begin within blocks of the file, by rows of all parts.
Status InGroups::read(uint64_t first, uint64_t count, float *to) const {
  std::vector<float> row(turns.groups * turns.each * turns.size);
  Status status;
  for (uint64_t end = first + count; first < end && status.ok();) {
    uint64_t begin = first - first % row.size(),
             last = std::min(begin + row.size(), end);
    status = inner->write(begin, row.size(), DType::F32,
                          reinterpret_cast<std::byte *>(row.data()));
    for (; first < last; ++first)
      *to++ = row[placeOf(first) - begin];
  }
  return status;
}

Status InGroups::write(uint64_t first, uint64_t count, DType type,
                       std::byte *to) const {
  if (turns.size % block != 0)
    return writeFloats(first, count, piece(), type, to,
                       [&](uint64_t first, uint64_t count, float *values) {
                         return read(first, count, values);
                       });
  Status status;
  for (uint64_t end = first + count; first < end && status.ok();) {
    uint64_t left = first < turns.first
                        ? turns.first - first
                        : turns.size - (first - turns.first) % turns.size,
             part = std::min(left, end - first);
    status = inner->write(placeOf(first), part, type, to);
    to += bytesOf(type, part);
    first += part;
  }
  return status;
}

ElementsPtr interleaved(ElementsPtr x, uint64_t rows, uint64_t columns) {
  return std::make_unique<Interleaved>(std::move(x), rows, columns);
}

ElementsPtr minusOne(ElementsPtr x) {
  return std::make_unique<Mapped>(std::move(x),
                                  [](float value) { return value - 1; });
}

ElementsPtr logOfMinus(ElementsPtr x) {
  return std::make_unique<Mapped>(std::move(x),
                                  [](float value) { return std::log(-value); });
}

ElementsPtr inGroups(ElementsPtr x, Turns turns, uint64_t block) {
  return std::make_unique<InGroups>(std::move(x), turns, block);
}

} // namespace cria::gguf
