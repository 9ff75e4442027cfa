/// Translates one PTX function to LLVM IR, instruction by instruction.
///
/// Registers are containers of bits without a type: PTX lets `ld.global.b32`
/// load a float. Each register becomes an alloca of integers, which mem2reg
/// removes. An operand is read with the type of the instruction that reads it.
///
/// Addresses: a generic address is a host address. Shared addresses are small
/// integers, counted from the block's own shared memory.
///
/// Errors: `fail` keeps the first error. Translation continues to the end of
/// the instruction with meaningless values, so no handler checks for errors.
#pragma once

#include "tools/emulator/ptx/Ast.h"
#include "tools/emulator/run/Check.h"
#include "tools/emulator/run/Counts.h"
#include "tools/emulator/translate/Form.h"
#include "tools/emulator/translate/Layout.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <map>
#include <set>

namespace cria::emulator {

/// What the functions of one kernel share.
struct KernelContext {
  const PtxModule &ptx;
  const std::map<std::string, uint64_t> &globals;   ///< device addresses
  const std::map<std::string, uint64_t> &functions; ///< the same
  llvm::Module &module;
  const Layout &layout;
  unsigned capability = 80;
  bool checks = false;              ///< check each access to memory
  bool global = false;              ///< look for races in global memory
  uint64_t lineDistance = 0;        ///< to the stamps of lines (DeviceMemory.h)
  CountPlan *countPlan = nullptr;   ///< filled; null: nothing is counted
  bool requests = false;            ///< count accesses to memory
  bool blocks = false;              ///< set when the kernel needs fibers
  std::set<const Form *> used = {}; ///< rows of the table that were translated
};

class Emitter {
public:
  Emitter(KernelContext &kernel, const Function &source,
          llvm::Function *target);

  /// The whole function. None, or the first error.
  std::optional<Error> translate();

  /// The current instruction.
  /// @{
  const Operand &operand(size_t i) const { return instruction->operands[i]; }
  size_t operandCount() const { return instruction->operands.size(); }
  llvm::StringRef opcode() const { return instruction->opcode; }
  /// Whether it has the modifier. Each modifier must be asked for by someone.
  bool has(llvm::StringRef modifier);
  /// The one of `modifiers` (`a|b|c`) that the instruction has, or "".
  llvm::StringRef oneOf(llvm::StringRef modifiers);
  /// The next modifier that is a type.
  Type type();
  /// The state space without `::cta` and the like; "" for generic.
  llvm::StringRef space();
  /// Asks for the modifier that says which threads take part. True: only those
  /// of the block.
  bool scopeIsBlock();
  /// Asks for the modifier that is the shape of a matrix product.
  Shape shape();
  llvm::Value *line() { return builder.getInt32(instruction->line); }
  /// @}

  /// Operands. Bits beyond the operand's are zero or copies of its sign.
  /// @{
  llvm::Value *read(const Operand &operand, unsigned bits,
                    bool isSigned = false);
  llvm::Value *read(size_t i, const Type &type) {
    return read(operand(i), type.width(), type.isSigned());
  }
  llvm::Value *read32(size_t i) { return read(operand(i), 32); }
  llvm::Value *readPredicate(size_t i) { return read(operand(i), 1); }
  llvm::Value *readFloat(size_t i, const Type &type) {
    return toFloat(read(operand(i), type.width()), type);
  }
  void write(const Operand &operand, llvm::Value *value,
             bool signExtend = false);
  /// `d` or `d|p` from a 64-bit value: p is bit 32.
  void writePair(const Operand &operand, llvm::Value *value);
  /// @}

  /// The host address of an operand in shared::cluster.
  llvm::Value *clusterAddress(const Operand &operand);
  /// The host address (a pointer) of a memory operand, checked for an access
  /// with `flags`, whose space is not set; 0 bytes: no check. `stored` is the
  /// value of a store that is not strong.
  llvm::Value *address(const Operand &operand, llvm::StringRef space,
                       AccessFlags flags = {}, llvm::Value *stored = nullptr);
  /// Whether an address is in a variable in .const.
  llvm::Value *isConst(llvm::Value *address);
  /// Whether accesses are checked.
  bool checks() const { return kernel.checks; }
  /// The host address of a shared address, and of address 0 of shared memory.
  llvm::Value *sharedPointer(llvm::Value *offset);
  llvm::Value *sharedWindow();

  /// Bits to a float value and back, to nearest; bf16 and f16 are computed in
  /// f32.
  /// @{
  llvm::Value *toFloat(llvm::Value *bits, const Type &type);
  llvm::Value *fromFloat(llvm::Value *value, const Type &type);
  llvm::Type *floatType(const Type &type);
  /// f64 to f32, rounded to odd: a second rounding, to 16 bits, is then right.
  llvm::Value *narrowToOdd(llvm::Value *value);
  /// Subnormal values of `from` to zero.
  llvm::Value *flush(llvm::Value *value, const Type &from);
  /// @}

  llvm::IntegerType *intType(unsigned bits) { return builder.getIntNTy(bits); }
  llvm::Value *constant(unsigned bits, int64_t value) {
    return llvm::ConstantInt::getSigned(intType(bits), value);
  }
  llvm::Value *fit(llvm::Value *value, unsigned bits, bool isSigned = false);
  llvm::Value *unary(llvm::Intrinsic::ID id, llvm::Value *a) {
    return builder.CreateUnaryIntrinsic(id, a);
  }
  llvm::Value *binary(llvm::Intrinsic::ID id, llvm::Value *a, llvm::Value *b) {
    return builder.CreateBinaryIntrinsic(id, a, b);
  }
  /// A member of Thread that does not change while the kernel runs.
  llvm::Value *threadField(size_t offset, llvm::Type *type);
  /// Calls `name` of the runtime with this thread and `arguments`.
  llvm::CallInst *call(llvm::StringRef name, llvm::Type *result,
                       llvm::ArrayRef<llvm::Value *> arguments);
  /// The same for a function that lets other threads run meanwhile.
  llvm::CallInst *callBlocking(llvm::StringRef name, llvm::Type *result,
                               llvm::ArrayRef<llvm::Value *> arguments);
  /// `count` words of 32 bits on the stack; fills them from a vector of
  /// registers of `bits` (32 or 64), and back.
  llvm::AllocaInst *words(unsigned count);
  void storeWords(llvm::AllocaInst *words, unsigned at, const Operand &from,
                  unsigned bits = 32);
  void loadWords(llvm::AllocaInst *words, const Operand &to,
                 unsigned bits = 32);

  /// The registers of the function that are accumulators of wgmma, and arrays
  /// of words with their sums and the products that are to write them.
  struct Sums {
    std::vector<llvm::AllocaInst *> registers;
    llvm::Value *values = nullptr, *serials = nullptr;
  };
  const Sums &sums();
  /// The places in `sums()` of a vector of registers.
  llvm::Value *placesOf(const Operand &vector);

  /// Control flow. After a branch, the rest of the block is unreachable.
  /// @{
  llvm::BasicBlock *label(llvm::StringRef name);
  const std::vector<std::string> *branchTargets(llvm::StringRef name);
  void branch(llvm::BasicBlock *target);
  /// Whether the label stands before the instruction, so that the branch is a
  /// loop.
  bool isBackward(llvm::StringRef name);
  /// Once in many rounds of a loop, checks whether the launch should go on.
  void countRound();
  void finish(); ///< ret
  llvm::BasicBlock *newBlock(const char *name = "");
  bool isEntry() const { return source.isEntry; }
  /// The functions that a call by address may mean, and the address of one.
  /// @{
  std::vector<const Function *> calleesByAddress() const {
    return emulator::calleesByAddress(kernel.ptx, source, *instruction);
  }
  uint64_t addressOf(const Function &function) const {
    return kernel.functions.at(function.name);
  }
  /// @}
  const PtxModule &ptx() const { return kernel.ptx; }
  llvm::Module &module() { return kernel.module; }
  llvm::Value *thread() { return target->getArg(0); }
  /// The memory of a parameter or of a variable in .local or .param; null if
  /// there is none.
  llvm::Value *local(llvm::StringRef name);
  /// The carry flag: the carry of the last .cc instruction. After a
  /// subtraction, it is 1 if nothing was borrowed.
  llvm::Value *carry();
  /// @}

  /// Counts, if they are wanted (run/Counts.h).
  /// @{
  /// Ends the segment.
  void endSegment();
  /// An access to `bytes` at `pointer`, of this kind or of a load, a store or
  /// an atomic operation in `space`.
  void countRequest(RequestKind kind, llvm::Value *pointer, llvm::Value *bytes);
  void countRequest(llvm::StringRef space, const AccessFlags &flags,
                    llvm::Value *pointer);
  /// @}

  void fail(const llvm::Twine &message);

  llvm::IRBuilder<> builder;

private:
  struct Register {
    llvm::AllocaInst *slot = nullptr;
    unsigned bits = 0;
  };

  void declare();
  void checkStack();
  void body();
  void emit(const Instruction &next);
  void emitOne();
  void checkModifiers(const Match &match);
  void emitPredicated();
  void countInstruction();
  void countSwitchedOff(llvm::BasicBlock *block, size_t firstSite,
                        llvm::BasicBlock *after);
  void callRequest(size_t site, llvm::Value *pointer, llvm::Value *bytes);
  void closeBlocks();
  llvm::AllocaInst *slot(llvm::Type *type, unsigned align);
  Register *findRegister(llvm::StringRef name);
  const Variable *findVariable(llvm::StringRef name) const;
  llvm::Value *readName(const Operand &operand, unsigned bits, bool isSigned);
  llvm::Value *readVector(const Operand &operand, unsigned bits);
  llvm::Value *special(llvm::StringRef name);
  llvm::Value *laneMask(llvm::StringRef name);
  llvm::Value *sharedSize(llvm::StringRef name);
  llvm::Value *machineRegister(llvm::StringRef name);
  llvm::Value *clock();
  llvm::Value *symbol(llvm::StringRef name);
  llvm::Value *baseOf(const Operand &operand);
  void check(llvm::Value *pointer, llvm::Value *offset,
             const AccessFlags &flags, llvm::Value *stored);
  llvm::Function *checkWithRegisters();
  void askRuntime(llvm::Value *pointer, const AccessFlags &flags,
                  llvm::Value *stored);
  void goIf(llvm::Value *condition, llvm::BasicBlock *otherwise);
  void goIfNotedShared(llvm::Value *offset, const AccessFlags &flags,
                       llvm::BasicBlock *ask);
  llvm::Value *isInRange(llvm::Value *address, unsigned bytes);
  struct Line;
  void takeLine(const Line &line, llvm::Value *address, llvm::Value *segment,
                llvm::Value *old, llvm::BasicBlock *ask);
  void noteGlobal(llvm::Value *address, const AccessFlags &flags,
                  llvm::BasicBlock *go, llvm::BasicBlock *ask);

  KernelContext &kernel;
  const Function &source;
  llvm::Function *target;
  const Instruction *instruction = nullptr;
  std::vector<bool> asked; ///< which modifiers someone asked for
  std::optional<Error> error;
  llvm::BasicBlock *entry = nullptr;
  std::vector<llvm::BasicBlock *> labels;
  std::set<llvm::BasicBlock *> passed; ///< labels that have been reached
  std::map<std::pair<int, std::string>, Register> registers;
  llvm::StringMap<llvm::Value *> parameters; ///< pointers
  llvm::DenseMap<const Variable *, llvm::Value *> locals;
  llvm::AllocaInst *carrySlot = nullptr, *roundSlot = nullptr;
  Sums accumulators;
  std::map<const Register *, unsigned> places; ///< in accumulators
  CountPlan::Segment segment;                  ///< the one under way
};

/// The class of an instruction, and the operations of a matrix product.
InstructionClass classOf(const Instruction &instruction);

} // namespace cria::emulator
