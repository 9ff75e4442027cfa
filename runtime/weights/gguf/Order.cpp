#include "runtime/weights/gguf/Order.h"

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
