/// Files of NumPy.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cria {

/// The header of a NumPy file of float32 in C order.
std::string npyHeader(const std::vector<uint64_t> &shape);

struct NpyMatrix {
  uint64_t rows = 0, columns = 0;
  std::vector<float> values; // (rows, columns)
};

/// Reads a matrix in C order of little-endian f16, f32 or f64 from a regular
/// file of format version 1, 2 or 3. Numbers are rounded once to f32.
/// Everything else is refused by name. More than `limit` numbers are refused
/// before memory is allocated for them.
Result<NpyMatrix> readNpyMatrix(const std::string &path, uint64_t limit);

} // namespace cria
