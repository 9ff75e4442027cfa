// Reads of textures, and accesses to surfaces (run/Texture.h). The operand is
// [object, {coordinates}], the layer first.
#include "tools/emulator/run/Texture.h"
#include "tools/emulator/translate/Emitter.h"

#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {
namespace {

using llvm::Value;

#define GEOMETRIES "1d|2d|3d|a1d|a2d|cube|acube"

/// Asks for the geometry.
TextureAccess geometry(Emitter &e) {
  TextureAccess access;
  llvm::StringRef name = e.oneOf(GEOMETRIES);
  access.isCube = name.ends_with("cube");
  access.isLayered = name.starts_with("a");
  access.dimensions =
      access.isCube ? 2 : unsigned(name.drop_back().back() - '0');
  return access;
}

/// The number of the object.
Value *object(Emitter &e, size_t i) {
  Operand name = e.operand(i);
  if (name.value)
    e.fail("expected an object without an offset");
  name.kind = Operand::Name;
  name.parts.clear();
  return e.read(name, 64);
}

/// The coordinates in words. PTX pads them to 1, 2 or 4.
llvm::AllocaInst *coordinates(Emitter &e, size_t i,
                              const TextureAccess &access) {
  unsigned needed = access.isCube ? 3 : access.dimensions;
  needed += access.isLayered;
  const Operand &vector = e.operand(i).parts[0];
  if (vector.parts.size() < needed || vector.parts.size() > 4)
    e.fail("expected " + llvm::Twine(needed) + " coordinates");
  llvm::AllocaInst *words = e.words(4);
  e.storeWords(words, 0, vector);
  return words;
}

/// {texel}, [object, {coordinates}][, level]: an image has one level.
void emitTexture(Emitter &e) {
  auto &b = e.builder;
  TextureAccess access = geometry(e);
  e.has("v4");
  e.type(); // what the object makes of its texels
  access.isFloat = e.type().kind == Type::Float;
  if (e.operand(0).parts.size() != 4)
    e.fail("expected 4 values");
  llvm::AllocaInst *texel = e.words(4);
  e.call("emulatorTexture", b.getVoidTy(),
         {b.getInt32(access.packed()), object(e, 1), coordinates(e, 1, access),
          texel, e.line()});
  e.loadWords(texel, e.operand(0));
}

/// The access of an instruction to a surface, and its values' width.
TextureAccess surface(Emitter &e, size_t values, unsigned &bits) {
  TextureAccess access = geometry(e);
  unsigned count = llvm::StringSwitch<unsigned>(e.oneOf("v2|v4"))
                       .Case("v2", 2)
                       .Case("v4", 4)
                       .Default(1);
  if (values != count)
    e.fail("expected " + llvm::Twine(count) + " values");
  bits = e.type().width();
  access.bytes = bits / 8 * count;
  access.outside =
      llvm::StringSwitch<TextureAccess::Outside>(e.oneOf("trap|clamp|zero"))
          .Case("clamp", TextureAccess::ClampTo)
          .Case("zero", TextureAccess::Zero)
          .Default(TextureAccess::Trap);
  e.has("b");
  return access;
}

llvm::ArrayRef<Operand> partsOf(const Operand &operand) {
  return operand.kind == Operand::Vector ? llvm::ArrayRef(operand.parts)
                                         : llvm::ArrayRef(operand);
}

/// The place of a value of an access.
Value *placeOf(Emitter &e, Value *bytes, size_t i, unsigned bits) {
  return e.builder.CreateConstGEP1_64(e.intType(bits), bytes, i);
}

/// Calls for an access to the surface of operand `i`; its values are at
/// `bytes`.
void callSurface(Emitter &e, const TextureAccess &access, size_t i,
                 Value *bytes, bool stores) {
  auto &b = e.builder;
  e.call("emulatorSurface", b.getVoidTy(),
         {b.getInt32(access.packed()), object(e, i), coordinates(e, i, access),
          bytes, b.getInt32(stores), e.line()});
}

/// {values}, [object, {coordinates}]
void emitLoad(Emitter &e) {
  auto &b = e.builder;
  llvm::ArrayRef<Operand> to = partsOf(e.operand(0));
  unsigned bits;
  TextureAccess access = surface(e, to.size(), bits);
  Value *bytes = e.words(8);
  callSurface(e, access, 1, bytes, /*stores=*/false);
  for (size_t i = 0; i < to.size(); ++i)
    e.write(to[i],
            b.CreateAlignedLoad(e.intType(bits), placeOf(e, bytes, i, bits),
                                llvm::Align(1)));
}

/// [object, {coordinates}], {values}
void emitStore(Emitter &e) {
  auto &b = e.builder;
  llvm::ArrayRef<Operand> from = partsOf(e.operand(1));
  unsigned bits;
  TextureAccess access = surface(e, from.size(), bits);
  Value *bytes = e.words(8);
  for (size_t i = 0; i < from.size(); ++i)
    b.CreateAlignedStore(e.read(from[i], bits), placeOf(e, bytes, i, bits),
                         llvm::Align(1));
  callSurface(e, access, 0, bytes, /*stores=*/true);
}

#define TEXEL GEOMETRIES " v4 u32|s32|f32 s32|f32"
#define SURFACE "b 1d|2d|3d|a1d|a2d v2|v4? b8|b16|b32|b64 trap|clamp|zero"

constexpr Form kForms[] = {
    {"tex", TEXEL, "Dt", emitTexture},
    {"tex", "~level " TEXEL, "Dts", emitTexture},
    {"suld", SURFACE, "Dt", emitLoad},
    {"sust", SURFACE, "tS", emitStore},
};

} // namespace

llvm::ArrayRef<Form> textureForms() { return kForms; }

} // namespace cria::emulator
