#include "runtime/weights/lora/LoraUpdate.h"

#include "runtime/base/Clones.h"
#include "runtime/weights/Floats.h"

#include <algorithm>

namespace cria {

// Columns that are computed at once, and rows that are done before the next
// columns. Meanwhile the tile of A with these columns stays in the L1 cache.
static constexpr uint64_t tileColumns = 256, tileRows = 32;

void LoraUpdate::widen(uint64_t rank) { ranks += rank; }

void LoraUpdate::allocate() {
  a.resize(stride() * columnCount);
  b.resize(rowCount * stride());
}

/// sums[j] += sum over k of b[k] * a[k][j], for k in [0, stride).
CRIA_VECTOR_CLONES static void addProduct(const float *__restrict__ b,
                                          const float *__restrict__ a,
                                          uint64_t stride, uint64_t columns,
                                          float *__restrict__ sums,
                                          uint64_t count) {
  for (uint64_t k = 0; k < stride; k += 4) {
    const float *a0 = a + k * columns, *a1 = a0 + columns, *a2 = a1 + columns,
                *a3 = a2 + columns;
    float b0 = b[k], b1 = b[k + 1], b2 = b[k + 2], b3 = b[k + 3];
    for (uint64_t j = 0; j < count; ++j)
      sums[j] += (b0 * a0[j] + b1 * a1[j]) + (b2 * a2[j] + b3 * a3[j]);
  }
}

/// Adds to elements of one row, at most `tileColumns`.
void LoraUpdate::addPart(float *values, uint64_t first, uint64_t count) const {
  float sums[tileColumns] = {};
  uint64_t row = first / columnCount, column = first % columnCount;
  addProduct(b.data() + row * stride(), a.data() + column, stride(),
             columnCount, sums, count);
  for (uint64_t j = 0; j < count; ++j)
    values[j] += sums[j];
}

void LoraUpdate::addTo(float *values, uint64_t first, uint64_t count) const {
  uint64_t end = first + count;
  for (uint64_t top = first / columnCount; top * columnCount < end;
       top += tileRows)
    for (uint64_t left = 0; left < columnCount; left += tileColumns)
      for (uint64_t row = top; row < top + tileRows; ++row) {
        uint64_t right = std::min(left + tileColumns, columnCount);
        uint64_t begin = std::max(first, row * columnCount + left);
        uint64_t stop = std::min(end, row * columnCount + right);
        if (begin < stop)
          addPart(values + (begin - first), begin, stop - begin);
      }
}

namespace {

class Plus : public Decorator {
public:
  Plus(ElementsPtr x, const LoraUpdate &update)
      : Decorator(std::move(x)), update(update) {}

  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;

private:
  const LoraUpdate &update;
};

class Matrix : public Elements {
public:
  Matrix(const LoraUpdate *update, bool isA, uint64_t columns)
      : update(update), isA(isA), columns(columns) {}

  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;

private:
  float at(uint64_t row, uint64_t column) const;

  const LoraUpdate *update;
  const bool isA;
  const uint64_t columns;
};

} // namespace

Status Plus::write(uint64_t first, uint64_t count, DType type,
                   std::byte *to) const {
  auto compute = [&](uint64_t first, uint64_t count, float *values) {
    Status status = inner->write(first, count, DType::F32,
                                 reinterpret_cast<std::byte *>(values));
    if (status.ok())
      update.addTo(values, first, count);
    return status;
  };
  return writeFloats(first, count, piece(), type, to, compute);
}

float Matrix::at(uint64_t row, uint64_t column) const {
  if (!update || (isA ? row : column) >= update->rank())
    return 0;
  return isA ? update->ofA(row, column) : update->ofB(row, column);
}

Status Matrix::write(uint64_t first, uint64_t count, DType type,
                     std::byte *to) const {
  auto compute = [&](uint64_t first, uint64_t count, float *values) {
    for (uint64_t i = 0; i < count; ++i)
      values[i] = at((first + i) / columns, (first + i) % columns);
    return Status();
  };
  return writeFloats(first, count, piece(), type, to, compute);
}

ElementsPtr plus(ElementsPtr x, const LoraUpdate &update) {
  return std::make_unique<Plus>(std::move(x), update);
}

ElementsPtr matrixOf(const LoraUpdate *update, bool isA, uint64_t columns) {
  return std::make_unique<Matrix>(update, isA, columns);
}

} // namespace cria
