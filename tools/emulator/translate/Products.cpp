#include "tools/emulator/translate/Products.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace cria::emulator {
namespace {

constexpr uint8_t kOldest = 15; ///< larger ages count as this one

/// What may hold for a register.
struct State {
  /// The age of the pending product: 0 none, 1 in no group, 2 in the last
  /// committed group, 3 in the group before it.
  uint8_t age = 0;
  bool isAccumulator = false; ///< else it holds A
  int product = 0;            ///< PTX line
  int use = 0;                ///< PTX line of a use without a fence after it

  /// Joins the states of two ways. Whether `other` adds anything.
  bool join(const State &other) {
    bool isNewer = other.age && (!age || other.age < age);
    bool isUsed = other.use && !use;
    if (isNewer) {
      age = other.age;
      isAccumulator = other.isAccumulator;
      product = other.product;
    }
    if (isUsed)
      use = other.use;
    return isNewer || isUsed;
  }
};

using States = std::vector<State>; // by register

bool has(const Instruction &instruction, llvm::StringRef modifier) {
  return llvm::is_contained(instruction.modifiers, modifier);
}

bool isProduct(const Instruction &instruction) {
  return instruction.opcode == "wgmma" && has(instruction, "mma_async") &&
         instruction.operands.size() > 1;
}

/// The modifiers: the shape and the types.
std::string kindOf(const Instruction &product) {
  return llvm::join(product.modifiers, ".");
}

class Checker {
public:
  explicit Checker(const Function &function) : function(function) {}

  std::optional<Error> run() {
    for (const Instruction &one : function.body)
      if (isProduct(one))
        for (size_t i = 0; i < 2; ++i)
          for (const Operand &part : one.operands[i].parts)
            if (auto key = keyOf(part.name, one.scope))
              registers.try_emplace(*key, registers.size());
    if (registers.empty())
      return std::nullopt;
    divide();
    States first(registers.size());
    for (State &state : first)
      state.use = function.line;
    enter(0, first);
    while (!work.empty() && !error) {
      size_t block = work.back();
      work.pop_back();
      walk(block);
    }
    return error;
  }

private:
  using Key = std::pair<int, std::string>;

  /// The scope that declares a register, and its name.
  std::optional<Key> keyOf(const std::string &name, int scope) const {
    llvm::StringRef stem = llvm::StringRef(name).rtrim("0123456789");
    for (int s = scope; s >= 0; s = function.scopes[s].parent) {
      const Scope &here = function.scopes[s];
      if (here.registers.count(name) || here.ranges.count(stem))
        return Key(s, name);
    }
    return std::nullopt;
  }

  State *find(States &states, const std::string &name, int scope) const {
    auto key = keyOf(name, scope);
    auto found = key ? registers.find(*key) : registers.end();
    return found == registers.end() ? nullptr : &states[found->second];
  }

  /// Blocks begin at labels and after branches.
  void divide() {
    bool isNew = true;
    labels.resize(size_t(function.labelCount));
    for (size_t i = 0; i < function.body.size(); ++i) {
      const Instruction &one = function.body[i];
      if (isNew || !one.labels.empty())
        begins.push_back(i);
      for (int label : one.labels)
        labels[size_t(label)] = begins.size() - 1;
      isNew = one.opcode == "bra" || one.opcode == "brx";
    }
    states.resize(begins.size());
  }

  void enter(size_t block, const States &from) {
    bool changes = states[block].empty();
    if (changes)
      states[block] = from;
    else
      for (size_t i = 0; i < from.size(); ++i)
        changes |= states[block][i].join(from[i]);
    if (changes && !llvm::is_contained(work, block))
      work.push_back(block);
  }

  void enterLabel(const std::string &name, int scope, const States &from) {
    if (auto *label = function.lookUp(&Scope::labels, scope, name))
      enter(labels[size_t(*label)], from);
  }

  void enterTargets(const std::string &name, int scope, const States &from) {
    if (auto *list = function.lookUp(&Scope::targets, scope, name))
      for (const std::string &target : *list)
        enterLabel(target, scope, from);
  }

  void walk(size_t block) {
    States now = states[block];
    size_t end =
        block + 1 < begins.size() ? begins[block + 1] : function.body.size();
    for (size_t i = begins[block]; i < end && !error; ++i) {
      const Instruction &one = function.body[i];
      bool isCertain = one.predicate.empty();
      if (one.opcode == "bra" && !one.operands.empty())
        enterLabel(one.operands[0].name, one.scope, now);
      if (one.opcode == "brx" && one.operands.size() > 1)
        enterTargets(one.operands[1].name, one.scope, now);
      if (one.opcode == "ret")
        checkReturn(one, now);
      bool leaves = one.opcode == "bra" || one.opcode == "brx" ||
                    one.opcode == "ret" || one.opcode == "exit" ||
                    one.opcode == "trap";
      if (leaves && isCertain)
        return;
      States before = now;
      execute(one, now);
      for (size_t r = 0; !isCertain && r < now.size(); ++r)
        now[r].join(before[r]);
    }
    if (block + 1 < begins.size())
      enter(block + 1, now);
    else
      checkReturn(function.body.back(), now);
  }

  void execute(const Instruction &one, States &now) {
    if (one.opcode != "wgmma")
      return use(one, now);
    if (isProduct(one))
      return multiply(one, now);
    for (State &state : now) {
      if (has(one, "fence"))
        state.use = 0;
      if (has(one, "commit_group") && state.age && state.age < kOldest)
        ++state.age;
      if (has(one, "wait_group") && !one.operands.empty() &&
          int64_t(state.age) >= 2 + one.operands[0].value)
        state.age = 0;
    }
  }

  void multiply(const Instruction &one, States &now) {
    for (size_t i = 2; i < one.operands.size(); ++i)
      useOperand(one, one.operands[i], false, now);
    if (one.operands[1].kind != Operand::Vector)
      useOperand(one, one.operands[1], false, now);
    for (size_t i = 0; i < 2; ++i)
      for (const Operand &part : one.operands[i].parts)
        if (State *state = find(now, part.name, one.scope))
          begin(one, part.name, i == 0, *state);
    kinds[one.line] = kindOf(one);
  }

  void begin(const Instruction &one, const std::string &name,
             bool isAccumulator, State &state) {
    bool isSame = state.isAccumulator == isAccumulator &&
                  (!isAccumulator || kinds[state.product] == kindOf(one));
    if (state.use)
      fail(one, "missing wgmma.fence: '" + name + "' was used" +
                    (state.use == function.line
                         ? ""
                         : " at PTX line " + std::to_string(state.use)) +
                    " before the product");
    else if (state.age && !isSame)
      fail(one, "missing wgmma.wait_group: the product at PTX line " +
                    std::to_string(state.product) + " uses '" + name +
                    "' otherwise");
    state.age = 1;
    state.isAccumulator = isAccumulator;
    state.product = one.line;
  }

  void use(const Instruction &one, States &now) {
    Operand predicate;
    predicate.name = one.predicate;
    useOperand(one, predicate, false, now);
    for (size_t i = 0; i < one.operands.size(); ++i)
      useOperand(one, one.operands[i],
                 i == 0 && one.operands[0].kind != Operand::Address, now);
  }

  void useOperand(const Instruction &one, const Operand &operand, bool writes,
                  States &now) {
    for (const Operand &part : operand.parts)
      useOperand(one, part, writes, now);
    State *state = find(now, operand.name, one.scope);
    if (!state)
      return;
    if (state->age && (state->isAccumulator || writes))
      fail(one, "missing wgmma.wait_group: '" + operand.name +
                    "' is used before the product at PTX line " +
                    std::to_string(state->product) + " has ended");
    state->use = one.line;
  }

  void checkReturn(const Instruction &one, const States &now) {
    for (const State &state : now)
      if (state.age && !function.isEntry)
        fail(one, "missing wgmma.wait_group: the function returns before the "
                  "product at PTX line " +
                      std::to_string(state.product) + " has ended");
  }

  void fail(const Instruction &one, const std::string &message) {
    if (!error)
      error = Error{one.line, message + ": " + one.text};
  }

  const Function &function;
  std::map<Key, size_t> registers;
  std::vector<size_t> begins; // first instruction of each block
  std::vector<size_t> labels; // block of each label
  std::vector<States> states; // where each block begins
  std::vector<size_t> work;
  std::map<int, std::string> kinds; // of products, by PTX line
  std::optional<Error> error;
};

} // namespace

std::optional<Error> checkProducts(const Function &function) {
  return Checker(function).run();
}

} // namespace cria::emulator
