#include "tools/emulator/ptx/Type.h"

#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {

std::optional<Type> typeNamed(llvm::StringRef name) {
  using Found = std::optional<Type>;
  return llvm::StringSwitch<Found>(name)
      .Case("pred", Type{Type::Predicate, 1})
      .Case("b1", Type{Type::Bits, 1})
      .Case("b8", Type{Type::Bits, 8})
      .Case("b16", Type{Type::Bits, 16})
      .Case("b32", Type{Type::Bits, 32})
      .Case("b64", Type{Type::Bits, 64})
      .Case("b128", Type{Type::Bits, 128})
      .Case("u4", Type{Type::Unsigned, 4})
      .Case("u8", Type{Type::Unsigned, 8})
      .Case("u16", Type{Type::Unsigned, 16})
      .Case("u32", Type{Type::Unsigned, 32})
      .Case("u64", Type{Type::Unsigned, 64})
      .Case("s4", Type{Type::Signed, 4})
      .Case("s8", Type{Type::Signed, 8})
      .Case("s16", Type{Type::Signed, 16})
      .Case("s32", Type{Type::Signed, 32})
      .Case("s64", Type{Type::Signed, 64})
      .Case("f16", Type{Type::Float, 16})
      .Case("f32", Type{Type::Float, 32})
      .Case("f64", Type{Type::Float, 64})
      .Case("bf16", Type{Type::BFloat, 16})
      .Case("f16x2", Type{Type::Float, 16, true})
      .Case("bf16x2", Type{Type::BFloat, 16, true})
      .Case("tf32", Type{Type::TFloat, 32})
      .Case("e4m3", Type{Type::E4M3, 8})
      .Case("e5m2", Type{Type::E5M2, 8})
      .Case("e4m3x2", Type{Type::E4M3, 8, true})
      .Case("e5m2x2", Type{Type::E5M2, 8, true})
      .Default(Found());
}

std::optional<Shape> shapeNamed(llvm::StringRef name) {
  Shape shape;
  auto take = [&](llvm::StringRef letter, unsigned &size) {
    return name.consume_front(letter) && !name.consumeInteger(10, size);
  };
  if (take("m", shape.m) && take("n", shape.n) && take("k", shape.k) &&
      name.empty())
    return shape;
  return std::nullopt;
}

} // namespace cria::emulator
