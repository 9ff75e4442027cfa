/// Element types and the size of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// The element types that compiled code reads (f32, f16, bf16), the types that
/// are converted to these when a model is loaded, and block formats, whose
/// elements share scales; see Blocks.h.
enum class DType {
  F32,
  F16,
  BF16,
  F64,
  F8_E4M3,
  Q8_0,
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
  IQ4_NL,
  IQ4_XS,
  MXFP4,
  FP8
};

/// The most elements of a block; a multiple of every type's block size.
constexpr uint64_t mostBlockElements = 256;

/// "f32".
const char *dtypeName(DType type);
/// The plain type called `name` in a manifest: f32, f16 or bf16.
std::optional<DType> dtypeNamed(const std::string &name);
/// The type called `name` that a manifest's weights may have: f32, f16, bf16,
/// q8_0, q4_0 or fp8.
std::optional<DType> weightTypeNamed(const std::string &name);

/// Elements and bytes of one block. In a type without blocks, each element is
/// a block.
struct BlockSize {
  uint64_t elements, bytes;
};
BlockSize blockOf(DType type);
inline bool isBlocked(DType type) { return blockOf(type).elements > 1; }

/// Bytes of `count` elements, whole blocks.
uint64_t bytesOf(DType type, uint64_t count);
/// Elements of `bytes` bytes, whole blocks.
uint64_t elementsOf(DType type, uint64_t bytes);
/// The alignment that compiled code expects of a tensor.
uint64_t alignmentOf(DType type);

using Shape = std::vector<uint64_t>;

/// The bytes of a tensor, rows one after the other; nothing if they overflow or
/// a row ends within a block. Every size that comes from a file is computed
/// here, or by `packedBytes`.
std::optional<uint64_t> tensorBytes(const Shape &shape, DType type);

/// The bytes of a tensor whose elements have `bits` bits, rounded up; nothing
/// if they overflow.
std::optional<uint64_t> packedBytes(const Shape &shape, uint64_t bits);

/// "[4096, 11008]".
std::string shapeText(const Shape &shape);

} // namespace cria
