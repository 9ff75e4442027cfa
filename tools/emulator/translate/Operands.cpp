// Reads and writes operands.
#include "tools/emulator/run/Thread.h"
#include "tools/emulator/translate/Emitter.h"

namespace cria::emulator {

using llvm::Value;

llvm::AllocaInst *Emitter::slot(llvm::Type *type, unsigned align) {
  llvm::AllocaInst *result = llvm::IRBuilder<>(entry).CreateAlloca(type);
  result->setAlignment(llvm::Align(llvm::PowerOf2Ceil(align)));
  return result;
}

/// The register called `name` in the scopes around the instruction, or null.
Emitter::Register *Emitter::findRegister(llvm::StringRef name) {
  llvm::StringRef stem = name.rtrim("0123456789");
  uint64_t index = 0;
  bool numbered = stem.size() < name.size() &&
                  !name.substr(stem.size()).getAsInteger(10, index);
  for (int s = instruction->scope; s >= 0; s = source.scopes[s].parent) {
    const Scope &scope = source.scopes[s];
    unsigned bits = 0;
    auto single = scope.registers.find(name);
    auto range = numbered ? scope.ranges.find(stem) : scope.ranges.end();
    if (single != scope.registers.end())
      bits = single->second.bits;
    else if (range != scope.ranges.end() && index < range->second.count)
      bits = range->second.bits;
    else
      continue;
    Register &found = registers[{s, name.str()}];
    if (!found.slot) {
      found = {slot(intType(bits), bits < 8 ? 1 : bits / 8), bits};
      llvm::IRBuilder<>(entry).CreateStore(constant(bits, 0), found.slot);
    }
    return &found;
  }
  return nullptr;
}

llvm::Value *Emitter::fit(llvm::Value *value, unsigned bits, bool isSigned) {
  return isSigned ? builder.CreateSExtOrTrunc(value, intType(bits))
                  : builder.CreateZExtOrTrunc(value, intType(bits));
}

static uint64_t floatBits(const Operand &operand, unsigned bits) {
  llvm::APFloat value =
      operand.kind == Operand::Float32
          ? llvm::APFloat(llvm::APFloat::IEEEsingle(),
                          llvm::APInt(32, operand.value & 0xffffffff))
          : llvm::APFloat(llvm::APFloat::IEEEdouble(),
                          llvm::APInt(64, uint64_t(operand.value)));
  bool losesInfo;
  value.convert(bits == 64 ? llvm::APFloat::IEEEdouble()
                           : llvm::APFloat::IEEEsingle(),
                llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return value.bitcastToAPInt().getZExtValue();
}

llvm::Value *Emitter::read(const Operand &operand, unsigned bits,
                           bool isSigned) {
  switch (operand.kind) {
  case Operand::Integer:
    return llvm::ConstantInt::get(
        intType(bits),
        llvm::APInt(64, uint64_t(operand.value)).sextOrTrunc(bits));
  case Operand::Float32:
  case Operand::Float64:
    if (bits != 32 && bits != 64)
      fail("a float constant cannot have " + llvm::Twine(bits) + " bits");
    return llvm::ConstantInt::get(
        intType(bits),
        llvm::APInt(64, floatBits(operand, bits)).zextOrTrunc(bits));
  case Operand::Vector:
    return readVector(operand, bits);
  case Operand::Name:
    return readName(operand, bits, isSigned);
  default:
    fail("operand cannot be read");
    return llvm::PoisonValue::get(intType(bits));
  }
}

/// {a, b}: a in the low bits.
llvm::Value *Emitter::readVector(const Operand &operand, unsigned bits) {
  unsigned each = bits / unsigned(operand.parts.size());
  if (each * operand.parts.size() != bits || each < 8) {
    fail("vector does not fill " + llvm::Twine(bits) + " bits");
    return llvm::PoisonValue::get(intType(bits));
  }
  llvm::Value *all = constant(bits, 0);
  for (size_t i = 0; i < operand.parts.size(); ++i) {
    llvm::Value *part = fit(read(operand.parts[i], each), bits);
    all = builder.CreateOr(all, builder.CreateShl(part, i * each));
  }
  return all;
}

llvm::Value *Emitter::readName(const Operand &operand, unsigned bits,
                               bool isSigned) {
  llvm::Value *value;
  if (Register *found = findRegister(operand.name))
    value = builder.CreateLoad(intType(found->bits), found->slot);
  else if (operand.name == "WARP_SZ")
    value = builder.getInt32(32);
  else if (llvm::StringRef(operand.name).starts_with("%"))
    value = special(operand.name);
  else
    value = symbol(operand.name);
  if (operand.value)
    value = builder.CreateAdd(
        value, llvm::ConstantInt::get(value->getType(), operand.value));
  value = fit(value, bits, isSigned);
  return operand.negated ? builder.CreateNot(value) : value;
}

void Emitter::write(const Operand &operand, llvm::Value *value,
                    bool signExtend) {
  if (operand.kind == Operand::Sink)
    return;
  unsigned bits = unsigned(value->getType()->getPrimitiveSizeInBits());
  value = builder.CreateBitCast(value, intType(bits));
  if (operand.kind == Operand::Vector) {
    unsigned each = bits / unsigned(operand.parts.size());
    for (size_t i = 0; i < operand.parts.size(); ++i)
      write(operand.parts[i], fit(builder.CreateLShr(value, i * each), each));
    return;
  }
  Register *found = findRegister(operand.name);
  if (!found)
    return fail("unknown register '" + operand.name + "'");
  builder.CreateStore(fit(value, found->bits, signExtend), found->slot);
}

void Emitter::writePair(const Operand &operand, llvm::Value *value) {
  Operand first = operand;
  first.paired = false;
  write(first, fit(value, 32));
  if (operand.paired)
    write(operand.parts[0], fit(builder.CreateLShr(value, 32), 1));
}

llvm::Value *Emitter::threadField(size_t offset, llvm::Type *type) {
  llvm::LoadInst *load = builder.CreateLoad(
      type, builder.CreateConstGEP1_64(builder.getInt8Ty(), thread(), offset));
  load->setMetadata(llvm::LLVMContext::MD_invariant_load,
                    llvm::MDNode::get(builder.getContext(), {}));
  return load;
}

/// %lanemask_lt and similar registers.
llvm::Value *Emitter::laneMask(llvm::StringRef name) {
  llvm::Value *lane = threadField(offsetof(Thread, lane), builder.getInt32Ty());
  llvm::Value *equal = builder.CreateShl(builder.getInt32(1), lane);
  llvm::Value *less = builder.CreateSub(equal, builder.getInt32(1));
  llvm::Value *lessEqual = builder.CreateOr(equal, less);
  if (name == "eq")
    return equal;
  if (name == "lt")
    return less;
  if (name == "le")
    return lessEqual;
  return builder.CreateNot(name == "ge" ? less : lessEqual);
}

Value *Emitter::clock() {
  return builder.CreateIntrinsic(builder.getInt64Ty(),
                                 llvm::Intrinsic::readcyclecounter, {});
}

llvm::Value *Emitter::special(llvm::StringRef name) {
  static const std::map<llvm::StringRef, size_t> vectors = {
      {"%tid", offsetof(Thread, tid)},
      {"%ntid", offsetof(Thread, ntid)},
      {"%ctaid", offsetof(Thread, ctaid)},
      {"%nctaid", offsetof(Thread, nctaid)},
      {"%clusterid", offsetof(Thread, clusterId)},
      {"%nclusterid", offsetof(Thread, clusterCount)},
      {"%cluster_ctaid", offsetof(Thread, inCluster)},
      {"%cluster_nctaid", offsetof(Thread, clusterSize)}};
  static const std::map<llvm::StringRef, size_t> scalars = {
      {"%laneid", offsetof(Thread, lane)},
      {"%warpid", offsetof(Thread, warpIndex)},
      {"%nwarpid", offsetof(Thread, warpCount)},
      {"%cluster_ctarank", offsetof(Thread, clusterRank)},
      {"%cluster_nctarank", offsetof(Thread, clusterBlocks)},
      {"%dynamic_smem_size", offsetof(Thread, dynamicShared)},
      {"%envreg1", offsetof(Thread, gridWorkspace) + 4}, // its high half
      {"%envreg2", offsetof(Thread, gridWorkspace)}};
  auto [base, axis] = name.split('.');
  auto vector = vectors.find(base);
  if (vector != vectors.end() && axis.size() == 1 && axis[0] >= 'x' &&
      axis[0] <= 'z')
    return threadField(vector->second + 4 * size_t(axis[0] - 'x'),
                       builder.getInt32Ty());
  auto scalar = scalars.find(name);
  if (scalar != scalars.end())
    return threadField(scalar->second, builder.getInt32Ty());
  if (base.consume_front("%lanemask_") &&
      llvm::is_contained({"eq", "lt", "le", "ge", "gt"}, base))
    return laneMask(base);
  if (Value *value = sharedSize(name))
    return value;
  return machineRegister(name);
}

/// Registers of the size and the places of shared memory; null for others.
llvm::Value *Emitter::sharedSize(llvm::StringRef name) {
  constexpr uint64_t kUnit = 128; // sizes are multiples of it
  auto &b = builder;
  if (name == "%total_smem_size" || name == "%aggr_smem_size") {
    Value *dynamic =
        threadField(offsetof(Thread, dynamicShared), b.getInt32Ty());
    uint64_t reserved = name == "%aggr_smem_size" ? kReservedPerBlock : 0;
    Value *sum = b.CreateAdd(
        dynamic,
        b.getInt32(uint32_t(kernel.layout.sharedBytes + reserved + kUnit - 1)));
    return b.CreateAnd(sum, b.getInt32(~uint32_t(kUnit - 1)));
  }
  if (!kernel.layout.reserved || !name.consume_front("%reserved_smem_offset_"))
    return nullptr;
  uint64_t begin = kSharedBase + *kernel.layout.reserved;
  if (name == "begin" || name == "1") // 0 is the system's alone
    return b.getInt32(uint32_t(begin));
  if (name == "end")
    return b.getInt32(uint32_t(begin + kReservedShared));
  if (name == "cap")
    return b.getInt32(uint32_t(kReservedShared));
  return nullptr;
}

/// Registers of the machine, and its clocks. A launch runs on one
/// multiprocessor.
llvm::Value *Emitter::machineRegister(llvm::StringRef name) {
  auto &b = builder;
  if (name == "%smid" || name == "%gridid" || name == "%current_graph_exec")
    return b.getInt64(0);
  if (name == "%nsmid")
    return b.getInt32(1);
  if (name == "%is_explicit_cluster")
    return b.CreateICmpNE(
        threadField(offsetof(Thread, clusterBlocks), b.getInt32Ty()),
        b.getInt32(1));
  unsigned number;
  if (name.starts_with("%pm") || name.starts_with("%envreg"))
    if (!name.ltrim("%pmenvrg").consumeInteger(10, number))
      return b.getInt64(0); // nothing has set it
  if (name == "%clock_hi")
    return b.CreateLShr(clock(), 32);
  if (name == "%clock" || name == "%clock64")
    return clock();
  if (name.starts_with("%globaltimer")) {
    Value *time = call("emulatorTime", b.getInt64Ty(), {});
    return name.ends_with("_hi") ? b.CreateLShr(time, 32) : time;
  }
  fail("unknown register '" + name + "'");
  return builder.getInt32(0);
}

llvm::CallInst *Emitter::call(llvm::StringRef name, llvm::Type *result,
                              llvm::ArrayRef<llvm::Value *> arguments) {
  llvm::SmallVector<llvm::Value *> all{thread()};
  all.append(arguments.begin(), arguments.end());
  llvm::SmallVector<llvm::Type *> types;
  for (llvm::Value *value : all)
    types.push_back(value->getType());
  auto callee = kernel.module.getOrInsertFunction(
      name, llvm::FunctionType::get(result, types, false));
  llvm::CallInst *made = builder.CreateCall(callee, all);
  made->setDoesNotThrow();
  return made;
}

llvm::CallInst *Emitter::callBlocking(llvm::StringRef name, llvm::Type *result,
                                      llvm::ArrayRef<llvm::Value *> arguments) {
  kernel.blocks = true;
  return call(name, result, arguments);
}

llvm::AllocaInst *Emitter::words(unsigned count) {
  return slot(llvm::ArrayType::get(builder.getInt32Ty(), count), 16);
}

void Emitter::storeWords(llvm::AllocaInst *words, unsigned at,
                         const Operand &from, unsigned bits) {
  llvm::ArrayRef<Operand> parts = from.parts;
  if (from.kind != Operand::Vector)
    parts = from;
  for (const Operand &part : parts) {
    builder.CreateAlignedStore(
        read(part, bits),
        builder.CreateConstGEP1_64(builder.getInt32Ty(), words, at),
        llvm::Align(4));
    at += bits / 32;
  }
}

void Emitter::loadWords(llvm::AllocaInst *words, const Operand &to,
                        unsigned bits) {
  llvm::ArrayRef<Operand> parts = to.parts;
  if (to.kind != Operand::Vector)
    parts = to;
  for (size_t i = 0; i < parts.size(); ++i)
    write(parts[i], builder.CreateAlignedLoad(
                        intType(bits),
                        builder.CreateConstGEP1_64(builder.getInt32Ty(), words,
                                                   i * bits / 32),
                        llvm::Align(4)));
}

const Emitter::Sums &Emitter::sums() {
  if (accumulators.values)
    return accumulators;
  const Instruction *current = instruction;
  for (const Instruction &next : source.body) {
    instruction = &next; // its scope has the registers
    if (next.opcode != "wgmma" || next.operands.size() < 2)
      continue;
    for (const Operand &part : next.operands[0].parts) {
      Register *found = findRegister(part.name);
      if (!found || found->bits != 32) {
        fail("expected a register of 32 bits, got '" + part.name + "'");
        continue;
      }
      if (places.try_emplace(found, places.size()).second)
        accumulators.registers.push_back(found->slot);
    }
  }
  instruction = current;
  unsigned count = unsigned(places.size());
  accumulators.values = words(count);
  accumulators.serials = words(count);
  llvm::IRBuilder<>(entry).CreateMemSet(
      accumulators.serials, builder.getInt8(0), 4 * count, llvm::Align(16));
  return accumulators;
}

llvm::Value *Emitter::placesOf(const Operand &vector) {
  sums();
  llvm::SmallVector<uint32_t> numbers;
  for (const Operand &part : vector.parts)
    numbers.push_back(places[findRegister(part.name)]);
  auto *array = llvm::ConstantDataArray::get(builder.getContext(), numbers);
  return new llvm::GlobalVariable(kernel.module, array->getType(), true,
                                  llvm::GlobalValue::PrivateLinkage, array);
}

llvm::Value *Emitter::carry() {
  if (!carrySlot) {
    carrySlot = slot(builder.getInt1Ty(), 1);
    llvm::IRBuilder<>(entry).CreateStore(builder.getFalse(), carrySlot);
  }
  return carrySlot;
}

} // namespace cria::emulator
