// Checks of accesses to memory. Inline code decides for most accesses: whether
// an access is inside its allocation, aligned, and like one that was noted
// before. All other accesses call the runtime.
#include "tools/emulator/run/Thread.h"
#include "tools/emulator/translate/Emitter.h"

#include "llvm/IR/MDBuilder.h"
#include "llvm/Support/MathExtras.h"

namespace cria::emulator {

using llvm::Value;

/// Continues if `condition` holds, which is likely, else branches to
/// `otherwise`.
void Emitter::goIf(Value *condition, llvm::BasicBlock *otherwise) {
  llvm::BasicBlock *next = newBlock();
  builder.CreateCondBr(
      condition, next, otherwise,
      llvm::MDBuilder(builder.getContext()).createLikelyBranchWeights());
  builder.SetInsertPoint(next);
}

/// Continues if the keys of the words at `offset` allow the access (Shadow.h),
/// else branches to `ask`.
void Emitter::goIfNotedShared(Value *offset, const AccessFlags &flags,
                              llvm::BasicBlock *ask) {
  auto &b = builder;
  // Only the bits of an aligned offset in the arena may be set.
  goIf(b.CreateICmpEQ(b.CreateAnd(offset, ~(kArena - flags.bytes)),
                      b.getInt64(0)),
       ask);
  unsigned count = std::max(1u, flags.bytes / 4);
  static_assert(kKeyWords >= 16 / 4);
  llvm::Type *type =
      count == 4 ? (llvm::Type *)llvm::FixedVectorType::get(b.getInt64Ty(), 2)
                 : intType(32 * count);
  auto load = [&](Value *address, unsigned align) -> Value * {
    return b.CreateAlignedLoad(type, address, llvm::Align(align));
  };
  Value *keys = b.CreateConstGEP1_64(b.getInt8Ty(), sharedWindow(), kKeys);
  Value *index = b.CreateAnd(offset, ~uint64_t(3));
  Value *key = load(b.CreateGEP(b.getInt8Ty(), keys, index), 4 * count);
  Value *own = threadField(offsetof(Thread, sharedKeys), type);
  Value *rest = b.CreateXor(key, load(sharedWindow(), 16));
  rest = flags.isStore ? b.CreateXor(rest, own)
                       : b.CreateAnd(rest, b.CreateNot(own));
  rest = b.CreateBitCast(rest, intType(32 * count));
  goIf(b.CreateICmpEQ(rest, llvm::ConstantInt::get(rest->getType(), 0)), ask);
}

/// Whether [address, address + bytes) is aligned and in the range that this
/// instruction used last.
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

/// The stamp of a line of global memory (GlobalRaces.h). Its first words have
/// the number of a segment in the high half.
struct Emitter::Line {
  llvm::IRBuilder<> &b;
  Value *stamp, *bits; ///< bits of the access in the stamp
  size_t half, other;  ///< offsets of the stamp's half for this kind of access,
                       ///< and for the other
  size_t number;       ///< of the PTX line

  Value *member(size_t offset) const {
    return b.CreateConstGEP1_64(b.getInt8Ty(), stamp, offset);
  }
  Value *load(size_t offset, unsigned bits = 64) const {
    auto *load = b.CreateAlignedLoad(b.getIntNTy(bits), member(offset),
                                     llvm::Align(bits / 8));
    load->setAtomic(llvm::AtomicOrdering::Unordered);
    return load;
  }
  void store(size_t offset, Value *value) const {
    unsigned bytes = value->getType()->getIntegerBitWidth() / 8;
    b.CreateAlignedStore(value, member(offset), llvm::Align(bytes))
        ->setAtomic(llvm::AtomicOrdering::Release);
  }
  Value *segmentOf(Value *word) const {
    return b.CreateTrunc(b.CreateLShr(word, 32), b.getInt32Ty());
  }
  /// The access as made by `segment`.
  Value *by(Value *segment) const {
    return b.CreateOr(b.CreateShl(b.CreateZExt(segment, b.getInt64Ty()), 32),
                      bits);
  }
};

/// Takes a line for the first access of this kind in this launch, if no other
/// segment has accessed it; else branches to `ask`. `old` is the line's stamp
/// for this kind.
void Emitter::takeLine(const Line &line, Value *address, Value *segment,
                       Value *old, llvm::BasicBlock *ask) {
  auto &b = builder;
  Value *first = threadField(offsetof(Thread, manyReaders), b.getInt32Ty());
  Value *other = line.segmentOf(line.load(line.other));
  Value *many = line.segmentOf(line.load(offsetof(LineStamp, many)));
  Value *isMine = b.CreateICmpEQ(other, segment);
  Value *isFree = b.CreateOr(isMine, b.CreateICmpULT(other, first));
  // The runtime counts pages when they are first touched.
  Value *inPage = b.CreateAnd(address, kStampPage - kLineBytes);
  for (Value *condition :
       {b.CreateICmpULT(line.segmentOf(old), first),
        b.CreateICmpULT(many, first), b.CreateICmpUGT(segment, first),
        b.CreateICmpNE(inPage, b.getInt64(0))})
    isFree = b.CreateAnd(isFree, condition);
  goIf(isFree, ask);
  size_t otherNumber = offsetof(LineStamp, readLine) +
                       offsetof(LineStamp, writeLine) - line.number;
  line.store(otherNumber,
             b.CreateSelect(isMine, line.load(otherNumber, 32), b.getInt32(0)));
  line.store(line.number, this->line());
  line.store(line.half, line.by(segment));
}

/// Notes an access to global memory in the stamp of its line (GlobalRaces.h)
/// and branches to `go`, or to `ask` if the stamp is not enough.
void Emitter::noteGlobal(Value *address, const AccessFlags &flags,
                         llvm::BasicBlock *go, llvm::BasicBlock *ask) {
  auto &b = builder;
  if (flags.bytes < 2) {
    b.CreateBr(ask);
    return;
  }
  Value *at = b.CreateMul(b.CreateLShr(address, llvm::Log2_64(kLineBytes)),
                          b.getInt64(kLineStampBytes));
  at = b.CreateAdd(at, b.getInt64(kernel.lineDistance));
  Value *place = b.CreateTrunc(b.CreateLShr(address, 1), b.getInt32Ty());
  Value *bits = b.CreateShl(b.getInt32((1u << flags.bytes / 2) - 1),
                            b.CreateAnd(place, kLineBytes / 2 - 1));
  Line line{b,
            b.CreateIntToPtr(at, b.getPtrTy()),
            b.CreateZExt(bits, b.getInt64Ty()),
            offsetof(LineStamp, read),
            offsetof(LineStamp, write),
            offsetof(LineStamp, readLine)};
  if (flags.isStore) {
    std::swap(line.half, line.other);
    line.number = offsetof(LineStamp, writeLine);
  }
  Value *segment = b.CreateLoad(
      b.getInt32Ty(), threadField(offsetof(Thread, segment), b.getPtrTy()));
  Value *old = line.load(line.half);
  llvm::BasicBlock *notMine = newBlock();
  goIf(b.CreateICmpEQ(line.segmentOf(old), segment), notMine);
  line.store(line.half, b.CreateOr(old, line.bits));
  line.store(line.number, this->line());
  b.CreateBr(go);
  b.SetInsertPoint(notMine);
  if (!flags.isStore) {
    // Bytes that several blocks read.
    Value *first = threadField(offsetof(Thread, manyReaders), b.getInt32Ty());
    Value *missing = b.CreateAnd(
        b.CreateXor(line.load(offsetof(LineStamp, many)), line.by(first)),
        b.CreateOr(line.bits, b.getInt64(~uint64_t(0) << 32)));
    llvm::BasicBlock *next = newBlock();
    b.CreateCondBr(b.CreateICmpEQ(missing, b.getInt64(0)), go, next);
    b.SetInsertPoint(next);
  }
  takeLine(line, address, segment, old, ask);
  b.CreateBr(go);
}

/// emulatorCheck for code that rarely calls it: the caller keeps its registers.
llvm::Function *Emitter::checkWithRegisters() {
  constexpr char kName[] = "checkWithRegisters";
  if (llvm::Function *made = kernel.module.getFunction(kName))
    return made;
  auto &context = builder.getContext();
  llvm::Type *pointer = builder.getPtrTy(), *word = builder.getInt32Ty();
  auto *type = llvm::FunctionType::get(
      builder.getVoidTy(), {pointer, pointer, word, word, pointer}, false);
  auto *made = llvm::Function::Create(type, llvm::Function::InternalLinkage,
                                      kName, kernel.module);
  made->setCallingConv(llvm::CallingConv::PreserveMost);
  made->addFnAttr(llvm::Attribute::NoInline);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "", made));
  llvm::SmallVector<Value *> arguments;
  for (llvm::Argument &argument : made->args())
    arguments.push_back(&argument);
  b.CreateCall(kernel.module.getOrInsertFunction("emulatorCheck", type),
               arguments)
      ->setDoesNotThrow();
  b.CreateRetVoid();
  return made;
}

/// Calls the runtime to check everything. `stored` is the value of a store.
void Emitter::askRuntime(Value *pointer, const AccessFlags &flags,
                         Value *stored) {
  auto &b = builder;
  Value *bytes = llvm::ConstantPointerNull::get(b.getPtrTy());
  if (stored) {
    bytes = slot(stored->getType(), 16);
    b.CreateStore(stored, bytes);
  }
  llvm::Function *check = checkWithRegisters();
  llvm::CallInst *made = b.CreateCall(
      check, {thread(), pointer, b.getInt32(flags.packed()), line(), bytes});
  made->setCallingConv(check->getCallingConv());
  made->setDoesNotThrow();
}

void Emitter::check(Value *pointer, Value *offset, const AccessFlags &flags,
                    Value *stored) {
  auto &b = builder;
  if (flags.isStrong || !llvm::isPowerOf2_32(flags.bytes) || flags.bytes > 16)
    return askRuntime(pointer, flags, stored);
  llvm::BasicBlock *ask = newBlock(), *go = newBlock();
  if (flags.isShared) {
    goIfNotedShared(offset, flags, ask);
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
      goIfNotedShared(b.CreateSub(offset, window), flags, ask);
      b.CreateBr(go);
    }
  }
  b.SetInsertPoint(ask);
  askRuntime(pointer, flags, stored);
  b.CreateBr(go);
  b.SetInsertPoint(go);
}

} // namespace cria::emulator
