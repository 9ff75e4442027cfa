/// The vector unit of a CPU: the properties that schedules depend on.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"
#include <cstdint>
#include <string>

namespace mlir {
class ModuleOp;
class Operation;
} // namespace mlir

namespace cria {

struct VectorUnit {
  /// f32 values in a vector register: 4, 8 or 16.
  int64_t lanes = 8;
  /// Vector registers: 16 or 32.
  int64_t registers = 16;
  /// Multiplies pairs of bf16 into f32 (AVX512-BF16 vdpbf16ps, Arm's bfdot) at
  /// more than the rate of f32 FMA.
  bool dotBf16 = false;
  /// Multiplies groups of four 8-bit numbers into i32 (vpdpbusd, Arm's sdot).
  bool dotBytes = false;
  /// Multiplies tiles of bf16 (AMX-BF16).
  bool amx = false;
  /// Multiplies tiles of 8 bits (AMX-INT8).
  bool amxBytes = false;
  /// Has Arm's instructions instead of x86's. `dotBytes` then multiplies signed
  /// numbers by signed ones, and not unsigned by signed.
  bool neon = false;
  /// Multiplies two rows of four bf16 by two others (Arm's bfmmla), faster than
  /// pairs.
  bool mmlaBf16 = false;
  /// Multiplies two rows of eight 8-bit numbers by two others (Arm's smmla).
  bool mmlaBytes = false;
  /// The number of distant rows of a matrix that are read together when a
  /// product with one vector is limited by memory: 1, 4 or 8. 1: one row after
  /// the other.
  int64_t streams = 1;
  /// How many bytes ahead of its reads a stream prefetches.
  static constexpr int64_t kBytesAhead = 1024;
  /// Products of matrices are blocked for the L2 cache, because the L3 cache
  /// cannot feed all multiplications.
  bool blockForL2 = false;

  /// The attribute of a module that holds the unit of its CPU:
  /// `cria.vector_unit = {amx, lanes = 16 : i64, ...}`. The pass attach-target
  /// writes it. A property that is not in it has the default above.
  static constexpr llvm::StringLiteral kAttribute = "cria.vector_unit";

  /// The unit in the module around `op`; without the attribute, the defaults.
  /// Fails, after an error at the module, if the attribute is no unit.
  static llvm::FailureOr<VectorUnit> of(mlir::Operation *op);

  /// The entries of the attribute as text: "amx, lanes = 16, ...".
  std::string text() const;
  /// Stores the unit that such a text describes. Fails, after an error at the
  /// module, if the text describes none.
  static llvm::LogicalResult store(llvm::StringRef text, mlir::ModuleOp module);
};

} // namespace cria
