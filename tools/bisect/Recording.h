/// The results of kernels for a prompt, row by row, under names that another
/// recording of the prompt has, too.
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/Status.h"
#include "runtime/base/files/OutputFile.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cria {

/// A result for all positions.
struct Rows {
  DType type = DType::F32; // type that the numbers were stored in
  uint64_t width = 0;
  std::vector<float> values; // (positions, width)

  uint64_t count() const { return width ? values.size() / width : 0; }
  const float *at(uint64_t position) const {
    return values.data() + position * width;
  }
};

struct Recording {
  std::vector<int32_t> ids, sourceIds;
  std::map<std::string, Rows> results;

  /// The first of `names` that exists with rows of `width` numbers for
  /// positions [0, end), or null.
  const Rows *find(const std::vector<std::string> &names, uint64_t width,
                   uint64_t end) const;

  /// The coarsest type of the results.
  DType type() const;

  /// A file of safetensors: results in their types, `ids` and `source_ids` in
  /// I32.
  Status write(const std::string &path,
               OutputFile::Named named = OutputFile::Named::ByUser) const;
  static Result<Recording> read(const std::string &path);
};

} // namespace cria
