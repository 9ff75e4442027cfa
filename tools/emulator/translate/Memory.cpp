// Loads, stores, fences and hints.
#include "tools/emulator/run/Thread.h"
#include "tools/emulator/translate/Emitter.h"

namespace cria::emulator {
namespace {

using llvm::AtomicOrdering;
using llvm::Value;

unsigned vectorLength(Emitter &e) {
  llvm::StringRef length = e.oneOf("v2|v4");
  return length == "v4" ? 4 : length == "v2" ? 2 : 1;
}

/// One value and its place in memory.
struct Transfer {
  AtomicOrdering ordering; ///< of a strong operation, else NotAtomic
  llvm::StringRef space;
  unsigned count;
  Type type;

  unsigned bytes() const { return count * type.bytes(); }
  llvm::Type *in(Emitter &e) const {
    llvm::Type *element = e.intType(type.width());
    return count == 1 ? element : llvm::FixedVectorType::get(element, count);
  }
};

Transfer transfer(Emitter &e) {
  Transfer t;
  llvm::StringRef how = e.oneOf("weak|volatile|relaxed|acquire|release");
  e.scope();
  t.ordering = how == "acquire"               ? AtomicOrdering::Acquire
               : how == "release"             ? AtomicOrdering::Release
               : how.empty() || how == "weak" ? AtomicOrdering::NotAtomic
                                              : AtomicOrdering::Monotonic;
  t.space = e.space();
  e.has("nc");
  e.has("L2::cache_hint");
  t.count = vectorLength(e);
  t.type = e.type();
  return t;
}

bool isStrong(const Transfer &t) {
  return t.ordering != AtomicOrdering::NotAtomic && t.space != "local" &&
         t.space != "param" && t.space != "const";
}

/// A vector operand must have as many parts as the instruction says.
const Operand *parts(Emitter &e, const Operand &operand, unsigned count) {
  if (operand.kind == Operand::Vector && operand.parts.size() == count)
    return operand.parts.data();
  if (operand.kind != Operand::Vector && count == 1)
    return &operand;
  e.fail("expected " + llvm::Twine(count) + " values");
  return nullptr;
}

/// A thread that polls memory lets the others run now and then.
void emitLoad(Emitter &e) {
  auto &b = e.builder;
  Transfer t = transfer(e);
  if (isStrong(t))
    e.callBlocking("emulatorSpin", b.getVoidTy(), {e.line()});
  Value *pointer = e.address(e.operand(1), t.space, t.bytes(), Access::Load);
  const Operand *to = parts(e, e.operand(0), t.count);
  if (!to)
    return;
  bool atomic = isStrong(t) && t.count == 1;
  llvm::LoadInst *load = b.CreateAlignedLoad(
      t.in(e), pointer, llvm::Align(atomic ? t.bytes() : 1), isStrong(t));
  if (atomic)
    load->setAtomic(t.ordering);
  if (t.count == 1)
    return e.write(to[0], load, t.type.isSigned());
  for (unsigned i = 0; i < t.count; ++i)
    e.write(to[i], b.CreateExtractElement(load, i), t.type.isSigned());
}

void emitStore(Emitter &e) {
  auto &b = e.builder;
  Transfer t = transfer(e);
  Value *pointer = e.address(e.operand(0), t.space, t.bytes(), Access::Store);
  const Operand *from = parts(e, e.operand(1), t.count);
  if (!from)
    return;
  Value *value = e.read(from[0], t.type.width());
  if (t.count > 1) {
    Value *all = llvm::PoisonValue::get(t.in(e));
    for (unsigned i = 0; i < t.count; ++i)
      all = b.CreateInsertElement(all, e.read(from[i], t.type.width()), i);
    value = all;
  }
  bool atomic = isStrong(t) && t.count == 1;
  llvm::StoreInst *store = b.CreateAlignedStore(
      value, pointer, llvm::Align(atomic ? t.bytes() : 1), isStrong(t));
  if (atomic)
    store->setAtomic(t.ordering);
}

void emitFence(Emitter &e) {
  e.oneOf("sc|acq_rel");
  e.oneOf("gl");
  e.scope();
  e.builder.CreateFence(AtomicOrdering::SequentiallyConsistent);
}

/// Shared memory lies in a window of generic addresses; local memory on the
/// stacks is not told from global memory.
void emitIsSpace(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef space = e.space();
  Value *address = e.read(e.operand(1), 64);
  Value *window = b.CreatePtrToInt(e.sharedWindow(), b.getInt64Ty());
  Value *isShared = b.CreateICmpULT(b.CreateSub(address, window),
                                    b.getInt64(uint64_t(256) << 10));
  if (space == "shared")
    return e.write(e.operand(0), isShared);
  if (space == "global")
    return e.write(e.operand(0), b.CreateNot(isShared));
  e.fail("only shared and global memory are told apart");
}

/// Instructions that change nothing a program can see.
void emitNothing(Emitter &) {}

/// A cache policy is an opaque value.
void emitPolicy(Emitter &e) { e.write(e.operand(0), e.constant(64, 0)); }

#define CACHE                                                                  \
  "~ca|cg|cs|cv|lu|wb|wt? "                                                    \
  "~L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|"      \
  "L1::no_allocate? "                                                          \
  "~L2::evict_first|L2::evict_last|L2::evict_normal? "                         \
  "~L2::64B|L2::128B|L2::256B? "
#define STORE_SPACE                                                            \
  "global|shared|shared::cta|shared::cluster|local|param|param::func? "

constexpr Form kForms[] = {
    {"ld", "weak? $space? " CACHE "v2|v4? $memory", "Dm", emitLoad},
    {"ld", "weak? global nc? " CACHE "v2|v4? $memory", "Dm", emitLoad},
    {"ld", "weak? global nc? " CACHE "L2::cache_hint v2|v4? $memory", "Dms",
     emitLoad, 80},
    {"ld", "volatile $space? v2|v4? $memory", "Dm", emitLoad},
    {"ld",
     "relaxed|acquire cta|cluster|gpu|sys $space? " CACHE "v2|v4? $memory",
     "Dm", emitLoad, 70},
    {"ldu", "global? v2|v4? $memory", "Dm", emitLoad},
    {"st", "weak? " STORE_SPACE CACHE "v2|v4? $memory", "mS", emitStore},
    {"st", "weak? global? " CACHE "L2::cache_hint v2|v4? $memory", "mSs",
     emitStore, 80},
    {"st", "volatile " STORE_SPACE "v2|v4? $memory", "mS", emitStore},
    {"st",
     "relaxed|release cta|cluster|gpu|sys " STORE_SPACE CACHE "v2|v4? $memory",
     "mS", emitStore, 70},
    {"membar", "cta|gl|sys", "", emitFence},
    {"fence", "sc|acq_rel cta|cluster|gpu|sys", "", emitFence, 70},
    {"isspacep", "global|shared|shared::cta|shared::cluster", "ds",
     emitIsSpace},
    {"prefetch", "~global|local? ~L1|L2|L2::evict_last|L2::evict_normal", "m",
     emitNothing},
    {"prefetchu", "~L1", "m", emitNothing},
    {"discard", "~global? ~L2", "mi", emitNothing, 80},
    {"applypriority", "~global? ~L2::evict_normal", "mi", emitNothing, 80},
    {"createpolicy",
     "~fractional ~L2::evict_first|L2::evict_last|L2::evict_normal|"
     "L2::evict_unchanged ~L2::evict_unchanged? ~b64",
     "ds?", emitPolicy, 80},
    {"nanosleep", "~u32", "s", emitNothing, 70},
    {"griddepcontrol", "~launch_dependents|wait", "", emitNothing, 90},
    {"setmaxnreg", "~inc|dec ~sync ~aligned ~u32", "i", emitNothing, 90},
};

} // namespace

llvm::ArrayRef<Form> memoryForms() { return kForms; }

} // namespace cria::emulator
