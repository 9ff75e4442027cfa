// Loads, stores, fences and hints.
#include "tools/emulator/run/Collective.h"
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
  AtomicOrdering ordering; ///< Unordered: not a strong operation
  llvm::StringRef space;
  unsigned count;
  Type type;
  AccessFlags flags;

  /// Whether other threads can access the memory.
  bool isVisible() const {
    return space != "local" && space != "param" && space != "const";
  }
  bool isStrong() const {
    return ordering != AtomicOrdering::Unordered && isVisible();
  }
  /// The value's type.
  llvm::Type *in(Emitter &e) const {
    llvm::Type *element = e.intType(type.width());
    return count == 1 ? element : llvm::FixedVectorType::get(element, count);
  }
  /// Whether other threads see all of an access or nothing of it. In shared
  /// memory, whose threads take turns, only strong accesses need this.
  bool isWhole() const {
    return isVisible() && (space != "shared" || isStrong()) && flags.bytes <= 8;
  }
  /// The value's type in memory: a whole access is one number.
  llvm::Type *inMemory(Emitter &e) const {
    return isWhole() ? e.intType(flags.bytes * 8) : in(e);
  }
};

Transfer transfer(Emitter &e) {
  Transfer t;
  llvm::StringRef how = e.oneOf("weak|volatile|relaxed|acquire|release");
  // Accesses that bypass the L1 cache are meant to be seen by other blocks.
  bool isCached = e.oneOf("cg|cv|wt").empty();
  bool isWeak = isCached && (how.empty() || how == "weak");
  t.ordering = how == "acquire"   ? AtomicOrdering::Acquire
               : how == "release" ? AtomicOrdering::Release
               : isWeak           ? AtomicOrdering::Unordered
                                  : AtomicOrdering::Monotonic;
  t.flags.inBlock = e.scopeIsBlock();
  t.space = e.space();
  e.has("nc");
  e.has("L2::cache_hint");
  t.count = vectorLength(e);
  t.type = e.type();
  t.flags.bytes = t.count * t.type.bytes();
  t.flags.isStore = e.opcode() == "st";
  t.flags.isStrong = t.isStrong();
  t.flags.isVolatile = how == "volatile";
  t.flags.acquires = how == "acquire";
  t.flags.releases = how == "release";
  return t;
}

/// Makes other threads see all of up to 8 bytes or nothing, as on a device. An
/// atomic instruction is not enough: LLVM stores a number that is made of an
/// integer and a float in two parts unless the store is volatile. The elements
/// of a wider vector are not split.
template <typename Instruction>
Instruction *keepWhole(const Transfer &t, Instruction *made) {
  if (t.isWhole()) {
    made->setAlignment(llvm::Align(t.flags.bytes));
    made->setAtomic(t.ordering);
  }
  if (t.isVisible() && (t.space != "shared" || t.isStrong()))
    made->setVolatile(t.isStrong() || t.flags.isStore || t.count > 1);
  return made;
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

/// A thread that polls memory lets others run from time to time.
void emitLoad(Emitter &e) {
  auto &b = e.builder;
  Transfer t = transfer(e);
  if (t.isStrong())
    e.callBlocking("emulatorSpin", b.getVoidTy(),
                   {e.address(e.operand(1), t.space), e.line()});
  Value *pointer = e.address(e.operand(1), t.space, t.flags);
  e.countRequest(t.space, t.flags, pointer);
  const Operand *to = parts(e, e.operand(0), t.count);
  if (!to)
    return;
  llvm::LoadInst *load =
      keepWhole(t, b.CreateAlignedLoad(t.inMemory(e), pointer, llvm::Align(1)));
  Value *value = b.CreateBitCast(load, t.in(e));
  if (t.count == 1)
    return e.write(to[0], value, t.type.isSigned());
  for (unsigned i = 0; i < t.count; ++i)
    e.write(to[i], b.CreateExtractElement(value, i), t.type.isSigned());
}

void emitStore(Emitter &e) {
  auto &b = e.builder;
  Transfer t = transfer(e);
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
  Value *pointer = e.address(e.operand(0), t.space, t.flags, value);
  e.countRequest(t.space, t.flags, pointer);
  keepWhole(t, b.CreateAlignedStore(b.CreateBitCast(value, t.inMemory(e)),
                                    pointer, llvm::Align(1)));
}

void emitFence(Emitter &e) {
  auto &b = e.builder;
  e.oneOf("sc|acq_rel");
  bool isGlobal = e.has("gl");
  bool isBlock = e.scopeIsBlock();
  if (e.checks())
    e.call("emulatorFence", b.getVoidTy(), {b.getInt32(isGlobal || !isBlock)});
  b.CreateFence(AtomicOrdering::SequentiallyConsistent);
}

/// Shared memory lies in a window of generic addresses, the variables in .const
/// at addresses of their own. Local memory and parameters are known at run
/// time.
void emitIsSpace(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef space = e.space();
  Value *address = e.read(e.operand(1), 64);
  Value *window = b.CreatePtrToInt(e.sharedWindow(), b.getInt64Ty());
  Value *isShared = b.CreateICmpULT(b.CreateSub(address, window),
                                    b.getInt64(uint64_t(256) << 10));
  if (space == "shared")
    return e.write(e.operand(0), isShared);
  Value *isConst = e.isConst(address);
  if (space == "const")
    return e.write(e.operand(0), isConst);
  Value *found = e.call("emulatorSpaceOf", b.getInt32Ty(), {address});
  auto is = [&](Space which) {
    return b.CreateICmpEQ(found, b.getInt32(uint32_t(which)));
  };
  if (space == "global")
    return e.write(e.operand(0),
                   b.CreateAnd(b.CreateNot(b.CreateOr(isShared, isConst)),
                               is(Space::Other)));
  e.write(e.operand(0), is(space == "local" ? Space::Local : Space::Param));
}

/// Orders the kernel with the kernels before and after it.
void emitGridControl(Emitter &e) {
  bool waits = e.oneOf("launch_dependents|wait") == "wait";
  e.call(waits ? "emulatorGridWait" : "emulatorGridTrigger",
         e.builder.getVoidTy(), {});
}

/// Instructions without a visible effect.
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
    {"isspacep",
     "global|shared|shared::cta|shared::cluster|local|const|param|param::entry",
     "ds", emitIsSpace},
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
    {"griddepcontrol", "launch_dependents|wait", "", emitGridControl, 90},
};

} // namespace

llvm::ArrayRef<Form> memoryForms() { return kForms; }

} // namespace cria::emulator
