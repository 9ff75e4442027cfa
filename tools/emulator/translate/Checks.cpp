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

/// Notes an access to global memory in the stamp of its line (GlobalRaces.h)
/// and goes to `go`, or goes to `ask` where that does not do.
void Emitter::noteGlobal(Value *address, const AccessFlags &flags,
                         llvm::BasicBlock *go, llvm::BasicBlock *ask) {
  auto &b = builder;
  llvm::Type *number = b.getInt64Ty();
  llvm::MDNode *likely =
      llvm::MDBuilder(b.getContext()).createLikelyBranchWeights();
  if (flags.bytes < 2) {
    b.CreateBr(ask);
    return;
  }
  Value *at = b.CreateMul(b.CreateLShr(address, b.getInt64(6)),
                          b.getInt64(kLineStampBytes));
  Value *line = b.CreateIntToPtr(
      b.CreateAdd(at, b.getInt64(kernel.lineDistance)), b.getPtrTy());
  auto member = [&](size_t offset) {
    return b.CreateConstGEP1_64(b.getInt8Ty(), line, offset);
  };
  auto key = [&](size_t field) {
    return b.CreateShl(
        b.CreateZExt(changingField(field, b.getInt32Ty()), number),
        b.getInt64(32));
  };
  auto word = [&](size_t offset) {
    llvm::LoadInst *load =
        b.CreateAlignedLoad(number, member(offset), llvm::Align(8));
    load->setAtomic(llvm::AtomicOrdering::Unordered);
    return load;
  };
  Value *bits = b.CreateShl(
      b.getInt64((1u << flags.bytes / 2) - 1),
      b.CreateAnd(b.CreateLShr(address, b.getInt64(1)), b.getInt64(31)));
  size_t half =
      flags.isStore ? offsetof(LineStamp, write) : offsetof(LineStamp, read);
  Value *old = word(half);
  Value *others = b.CreateXor(old, key(offsetof(Thread, segment)));
  llvm::BasicBlock *mine = newBlock();
  llvm::BasicBlock *shared = flags.isStore ? ask : newBlock();
  b.CreateCondBr(b.CreateICmpULT(others, b.getInt64(uint64_t(1) << 32)), mine,
                 shared, likely);
  b.SetInsertPoint(mine);
  b.CreateAlignedStore(b.CreateOr(old, bits), member(half), llvm::Align(8))
      ->setAtomic(llvm::AtomicOrdering::Unordered);
  b.CreateAlignedStore(this->line(),
                       member(flags.isStore ? offsetof(LineStamp, writeLine)
                                            : offsetof(LineStamp, readLine)),
                       llvm::Align(4))
      ->setAtomic(llvm::AtomicOrdering::Unordered);
  b.CreateBr(go);
  if (flags.isStore)
    return;
  b.SetInsertPoint(shared);
  Value *missing = b.CreateAnd(
      b.CreateXor(word(offsetof(LineStamp, many)),
                  b.CreateOr(bits, key(offsetof(Thread, manyReaders)))),
      b.CreateOr(bits, b.getInt64(~uint64_t(0) << 32)));
  b.CreateCondBr(b.CreateICmpEQ(missing, b.getInt64(0)), go, ask, likely);
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
    b.CreateBr(go);
  } else {
    llvm::BasicBlock *notGlobal = ask;
    if (flags.isGeneric)
      notGlobal = newBlock();
    goIf(isInRange(offset, flags.bytes), notGlobal);
    if (kernel.global)
      noteGlobal(offset, flags, go, ask);
    else
      b.CreateBr(go);
    if (flags.isGeneric) {
      b.SetInsertPoint(notGlobal);
      Value *window = b.CreatePtrToInt(sharedWindow(), b.getInt64Ty());
      goIf(isNotedShared(b.CreateSub(offset, window), flags), ask);
      b.CreateBr(go);
    }
  }
  b.SetInsertPoint(ask);
  askRuntime(pointer, flags, stored);
  b.CreateBr(go);
  b.SetInsertPoint(go);
}

} // namespace cria::emulator
