/// The type suffixes of PTX, and the shapes of matrix products.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace cria::emulator {

/// The meaning of `.u32`, `.bf16x2` or `.pred` for the bits of an operand.
struct Type {
  enum Kind {
    Bits,
    Unsigned,
    Signed,
    Float,
    BFloat,
    TFloat,
    E4M3,
    E5M2,
    Predicate
  };

  Kind kind = Bits;
  unsigned bits = 0;   ///< of one element
  bool packed = false; ///< two elements side by side

  /// Bits of the whole operand.
  unsigned width() const { return packed ? 2 * bits : bits; }
  unsigned bytes() const { return width() < 8 ? 1 : width() / 8; }
  bool isSigned() const { return kind == Signed; }
  bool isFloat() const { return kind >= Float && kind <= E5M2; }
  /// One element of a packed type.
  Type element() const { return {kind, bits, false}; }
};

/// The type called `name`, without a dot; none if no type has this name.
std::optional<Type> typeNamed(llvm::StringRef name);

/// (m x k) times (k x n).
struct Shape {
  unsigned m = 0, n = 0, k = 0;
};

/// The shape called `name`, such as m16n8k16; none if no shape is.
std::optional<Shape> shapeNamed(llvm::StringRef name);

} // namespace cria::emulator
