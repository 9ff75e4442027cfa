/// Element types and the size of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// The element types that compiled code reads (f32, f16, bf16) and those that
/// can be converted to them at bind (f64 too).
enum class DType { F32, F16, BF16, F64 };

/// "f32".
const char *dtypeName(DType type);
/// The type called `name` in a manifest: f32, f16 or bf16.
std::optional<DType> dtypeNamed(const std::string &name);
/// Bytes of one element.
uint64_t dtypeSize(DType type);

using Shape = std::vector<uint64_t>;

/// The bytes of a tensor, rounded up from bits; nothing where it overflows.
/// Every size that comes from a file is computed here.
std::optional<uint64_t> tensorBytes(const Shape &shape, uint64_t bits);

/// "[4096, 11008]".
std::string shapeText(const Shape &shape);

} // namespace cria
