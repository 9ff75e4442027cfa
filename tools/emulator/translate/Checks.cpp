// Checks of accesses to memory. What most accesses need is decided here, in
// line: whether an access is inside its allocation, aligned, and like one that
// was noted before. All others ask the runtime.
#include "tools/emulator/run/Thread.h"
#include "tools/emulator/translate/Emitter.h"

#include "llvm/IR/MDBuilder.h"
#include "llvm/Support/MathExtras.h"

namespace cria::emulator {
namespace {

using llvm::Value;

/// `value` in each of `count` lanes.
Value *splat(llvm::IRBuilder<> &b, unsigned count, Value *value) {
  return count == 1 ? value : b.CreateVectorSplat(count, value);
}

Value *allOf(llvm::IRBuilder<> &b, Value *bits) {
  return bits->getType()->isVectorTy() ? b.CreateAndReduce(bits) : bits;
}

llvm::Type *lanesOf(llvm::Type *element, unsigned count) {
  return count == 1 ? element : llvm::FixedVectorType::get(element, count);
}

} // namespace

Value *Emitter::changingField(size_t offset, llvm::Type *type) {
  return builder.CreateLoad(
      type, builder.CreateConstGEP1_64(builder.getInt8Ty(), thread(), offset));
}

/// Whether the keys of the words at `offset` allow the access (Shadow.h).
Value *Emitter::isNotedShared(Value *offset, const AccessFlags &flags) {
  auto &b = builder;
  llvm::Type *word = b.getInt32Ty();
  unsigned count = std::max(1u, flags.bytes / 4);
  // One comparison for bounds and alignment: the low bits become high ones.
  unsigned shift = llvm::Log2_32(flags.bytes);
  Value *turned = offset;
  if (shift)
    turned = b.CreateIntrinsic(llvm::Intrinsic::fshr, {b.getInt64Ty()},
                               {offset, offset, b.getInt64(shift)});
  Value *inside = b.CreateICmpULT(turned, b.getInt64(kArena >> shift));
  Value *index = b.CreateAnd(offset, b.getInt64(kArena - 4 * count));
  Value *keys = b.CreateConstGEP1_64(b.getInt8Ty(), sharedWindow(), kKeys);
  llvm::Type *type = lanesOf(word, count);
  Value *key = b.CreateAlignedLoad(
      type, b.CreateGEP(b.getInt8Ty(), keys, index), llvm::Align(4 * count));
  Value *generation = b.CreateAlignedLoad(word, sharedWindow(), llvm::Align(4));
  Value *own = splat(
      b, count,
      b.CreateOr(generation, threadField(offsetof(Thread, sharedKey), word)));
  Value *fits;
  if (flags.isStore) {
    fits = b.CreateICmpEQ(key, own);
  } else {
    Value *written = llvm::ConstantInt::get(type, kKeyWritten);
    fits = b.CreateOr(b.CreateICmpEQ(b.CreateOr(key, written), own),
                      b.CreateICmpEQ(key, splat(b, count, generation)));
  }
  return b.CreateAnd(inside, allOf(b, fits));
}

/// Whether [address, address + bytes) is aligned and in the range that this
/// instruction accessed lately.
Value *Emitter::isInRange(Value *address, unsigned bytes) {
  auto &b = builder;
  llvm::Type *number = b.getInt64Ty();
  Value *range = b.CreateConstGEP1_64(
      b.getInt8Ty(), threadField(offsetof(Thread, ranges), b.getPtrTy()),
      unsigned(instruction->line) % kRanges * sizeof(Range));
  Value *begin = b.CreateLoad(number, range);
  Value *size =
      b.CreateLoad(number, b.CreateConstGEP1_64(b.getInt8Ty(), range,
                                                offsetof(Range, bytes)));
  Value *inside = b.CreateICmpULE(b.CreateSub(address, begin),
                                  b.CreateSub(size, b.getInt64(bytes)));
  Value *aligned = b.CreateICmpEQ(b.CreateAnd(address, b.getInt64(bytes - 1)),
                                  b.getInt64(0));
  return b.CreateAnd(inside, aligned);
}

/// Whether the stamps of `address` tell of the access already (GlobalRaces.h).
Value *Emitter::isNotedGlobal(Value *address, const AccessFlags &flags) {
  auto &b = builder;
  llvm::Type *number = b.getInt64Ty();
  unsigned count = std::max(1u, flags.bytes / 8);
  Value *granule = b.CreateAnd(address, b.getInt64(-uint64_t(8)));
  Value *place = b.CreateIntToPtr(
      b.CreateAdd(granule, b.getInt64(kernel.stampDistance)), b.getPtrTy());
  Value *stamp =
      b.CreateAlignedLoad(lanesOf(number, count), place, llvm::Align(8));
  // Bytes of the granule that are not accessed may be as they like.
  Value *bytes = b.getInt64(kStampBytes);
  if (flags.bytes < 8)
    bytes = b.CreateShl(b.getInt64((1u << flags.bytes) - 1),
                        b.CreateAnd(address, b.getInt64(7)));
  uint64_t rest = uint32_t(~kStampBytes);
  unsigned shift = flags.isStore ? 32 : 0;
  Value *mask = b.CreateOr(
      b.CreateShl(b.CreateOr(bytes, b.getInt64(rest)), b.getInt64(shift)),
      b.getInt64(flags.isStore ? 0xffffffff : 0xffffffff00000000));
  auto equals = [&](size_t field) {
    Value *segment = b.CreateZExt(changingField(field, b.getInt32Ty()), number);
    Value *full = b.CreateShl(b.CreateOr(segment, b.getInt64(kStampBytes)),
                              b.getInt64(shift));
    Value *differ = b.CreateAnd(b.CreateXor(stamp, splat(b, count, full)),
                                splat(b, count, mask));
    return b.CreateICmpEQ(differ,
                          llvm::Constant::getNullValue(differ->getType()));
  };
  Value *fits = equals(offsetof(Thread, segment));
  if (!flags.isStore)
    fits = b.CreateOr(fits, equals(offsetof(Thread, manyReaders)));
  return allOf(b, fits);
}

/// The call that looks at everything. `stored` is the value of a store.
void Emitter::askRuntime(Value *pointer, const AccessFlags &flags,
                         Value *stored) {
  auto &b = builder;
  Value *bytes = llvm::ConstantPointerNull::get(b.getPtrTy());
  if (stored) {
    bytes = slot(stored->getType(), 16);
    b.CreateStore(stored, bytes);
  }
  call("emulatorCheck", b.getVoidTy(),
       {pointer, b.getInt32(flags.packed()), line(), bytes});
}

void Emitter::check(Value *pointer, Value *offset, const AccessFlags &flags,
                    Value *stored) {
  auto &b = builder;
  if (flags.isStrong || !llvm::isPowerOf2_32(flags.bytes) || flags.bytes > 16)
    return askRuntime(pointer, flags, stored);
  llvm::BasicBlock *ask = newBlock(), *go = newBlock();
  llvm::MDNode *likely =
      llvm::MDBuilder(b.getContext()).createLikelyBranchWeights();
  auto goIf = [&](Value *condition, llvm::BasicBlock *otherwise) {
    llvm::BasicBlock *next = newBlock();
    b.CreateCondBr(condition, next, otherwise, likely);
    b.SetInsertPoint(next);
  };
  if (flags.isShared) {
    goIf(isNotedShared(offset, flags), ask);
  } else {
    llvm::BasicBlock *notGlobal = ask;
    if (flags.isGeneric)
      notGlobal = newBlock();
    goIf(isInRange(offset, flags.bytes), notGlobal);
    if (kernel.global)
      goIf(isNotedGlobal(offset, flags), ask);
    if (flags.isGeneric) {
      b.CreateBr(go);
      b.SetInsertPoint(notGlobal);
      Value *window = b.CreatePtrToInt(sharedWindow(), b.getInt64Ty());
      goIf(isNotedShared(b.CreateSub(offset, window), flags), ask);
    }
  }
  b.CreateBr(go);
  b.SetInsertPoint(ask);
  askRuntime(pointer, flags, stored);
  b.CreateBr(go);
  b.SetInsertPoint(go);
}

} // namespace cria::emulator
