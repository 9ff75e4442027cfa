#include "tools/plan/Sass.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace cria;
using namespace cria::sass;
using llvm::StringRef;

static constexpr int64_t kWarp = 32;

bool Instruction::isMma() const {
  static const llvm::StringSet<> names = {
      "HMMA", "IMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA", "UTCHMMA", "UTCIMMA"};
  return names.contains(op);
}

bool Instruction::has(StringRef modifier) const {
  return llvm::is_contained(modifiers, modifier);
}

bool Instruction::announces() const {
  return op == "SYNCS" && has("ARRIVE") && has("TRANS64");
}

bool Instruction::awaitsBarrier() const {
  return op == "SYNCS" && has("PHASECHK") && has("TRYWAIT");
}

int64_t Instruction::bytes() const {
  if (isBulk())
    return bulk.value_or(0) / kWarp;
  for (auto [modifier, bytes] :
       {std::pair("128", 16), std::pair("64", 8), std::pair("U16", 2),
        std::pair("S16", 2), std::pair("U8", 1), std::pair("S8", 1)})
    if (has(modifier))
      return bytes;
  return 4;
}

/// Takes `prefix` and the number after it from the front of the text.
static std::optional<int64_t> takeNumber(StringRef &text, StringRef prefix,
                                         unsigned radix = 10) {
  StringRef rest = text;
  int64_t number;
  if (!rest.consume_front(prefix) || rest.consumeInteger(radix, number))
    return std::nullopt;
  text = rest;
  return number;
}

void sass::addRegisters(StringRef operand, int width,
                        llvm::SmallVectorImpl<int> &numbers) {
  char before = ' ';
  while (!operand.empty()) {
    std::optional<int64_t> number;
    int first = 0;
    if (!llvm::isAlnum(before) && before != '_') {
      number = takeNumber(operand, "R");
      if (!number && (number = takeNumber(operand, "UR")))
        first = kUniform;
    }
    if (!number) {
      before = operand.front();
      operand = operand.drop_front();
      continue;
    }
    int count = operand.starts_with(".64") ? 2 : width;
    for (int i = 0; i < count; ++i)
      if (*number + i < kUniform)
        numbers.push_back(first + static_cast<int>(*number) + i);
    before = '0';
  }
}

/// Reads c[0x0][0x...] and c[0x0][R...+0x...].
static void readConstant(StringRef operands, Instruction &into) {
  size_t at = operands.find("c[0x0][");
  if (at == StringRef::npos)
    return;
  StringRef offset = operands.drop_front(at + strlen("c[0x0]["));
  if (!offset.starts_with("0x")) {
    into.indexed = true;
    offset = offset.split('+').second;
  }
  into.constant = takeNumber(offset, "0x", 16);
  into.indexed &= into.constant.has_value();
}

/// How many registers the result has, and how many the source `source` has.
static std::pair<int, int> widths(const Instruction &of, size_t source) {
  if (of.isMma())
    return {4, source == 1 ? 2 : 4};
  if (of.op == "LDSM") {
    int count = 1;
    of.modifiers.back().getAsInteger(10, count);
    return {count, 1};
  }
  if (of.has("128"))
    return {4, 4};
  if (of.has("64"))
    return {2, 2};
  if (of.has("WIDE"))
    return {2, source < 2 ? 1 : 2};
  bool pairs = of.op == "FFMA2" || of.op == "FADD2" || of.op == "FMUL2";
  if (pairs || (of.op == "CS2R" && !of.has("32")))
    return {2, 2};
  return {1, 1};
}

/// Whether an instruction has no register as its result.
static bool hasNoResult(StringRef op) {
  static const llvm::StringSet<> names = {
      "ST",   "STG",    "STS",      "STL",    "RED",       "BRA",
      "BRX",  "EXIT",   "RET",      "BSSY",   "BSYNC",     "BAR",
      "NOP",  "MEMBAR", "DEPBAR",   "ERRBAR", "LDGDEPBAR", "LDGSTS",
      "CCTL", "FCHK",   "WARPSYNC", "PLOP3",  "UPLOP3",    "R2P"};
  return names.contains(op) || op.ends_with("SETP") || op.ends_with("SETP2");
}

/// Whether an operand is a predicate.
static bool isPredicate(StringRef operand) {
  operand.consume_front("!");
  operand.consume_front("U");
  return operand.consume_front("P") && !operand.empty() &&
         (operand[0] == 'T' || llvm::isDigit(operand[0]));
}

/// Reads the text between "/*address*/" and ";".
static Instruction readInstruction(StringRef text) {
  Instruction result;
  if (text.consume_front("@")) {
    std::tie(result.guard, text) = text.split(' ');
    text = text.ltrim();
  }
  auto [name, rest] = text.split(' ');
  name.split(result.modifiers, '.');
  result.op = result.modifiers.front();
  result.modifiers.erase(result.modifiers.begin());
  rest = rest.trim();
  if (!rest.empty())
    rest.split(result.operands, ',');
  for (StringRef &operand : result.operands)
    operand = operand.trim();
  if (auto [_, label] = rest.split("`("); !label.empty())
    result.label = label.take_until([](char c) { return c == ')'; });
  readConstant(rest, result);
  size_t source = 0;
  bool wantsResult = !hasNoResult(result.op);
  for (StringRef operand : result.operands) {
    if (isPredicate(operand))
      continue;
    bool isMemory = operand.contains('[');
    if (wantsResult && !isMemory) {
      addRegisters(operand, widths(result, 0).first, result.writes);
    } else {
      int width = isMemory ? 1 : widths(result, source).second;
      addRegisters(operand, width, result.reads);
      ++source;
    }
    wantsResult = false;
  }
  return result;
}

std::optional<size_t> Kernel::target(const Instruction &instruction) const {
  auto found = labels.find(instruction.label);
  if (instruction.op == "BSSY" || found == labels.end())
    return std::nullopt;
  return found->second;
}

llvm::SmallVector<size_t, 2> Kernel::successors(size_t index) const {
  const Instruction &own = code[index];
  llvm::SmallVector<size_t, 2> result;
  if (auto to = target(own); to && *to < code.size())
    result.push_back(*to);
  bool ends = (own.op == "EXIT" || own.op == "RET") && own.guard.empty();
  bool always =
      own.op == "BRA" && own.guard.empty() && own.operands.size() == 1;
  if (!ends && !always && index + 1 < code.size())
    result.push_back(index + 1);
  return result;
}

/// Finds how many bytes bulk copies bring. A register has the number in units
/// of 16 bytes. It is known if the last instruction that writes the register
/// before the copy sets it to a constant, or to another register whose value is
/// known in the same way.
static void measureBulk(Kernel &kernel) {
  for (size_t i = 0; i < kernel.code.size(); ++i) {
    Instruction &copy = kernel.code[i];
    llvm::SmallVector<int, 1> chunks;
    if (copy.isBulk() && copy.operands.size() == 3)
      addRegisters(copy.operands[2], 1, chunks);
    for (size_t j = i; !chunks.empty() && j-- > 0;) {
      const Instruction &before = kernel.code[j];
      if (!llvm::is_contained(before.writes, chunks[0]))
        continue;
      StringRef value = before.operands.back();
      if (auto count = takeNumber(value, "0x", 16);
          count && before.op == "UMOV")
        copy.bulk = *count * 16;
      bool moves = llvm::is_contained({"MOV", "UMOV", "R2UR"}, before.op);
      chunks.clear();
      if (moves && !copy.bulk)
        addRegisters(value, 1, chunks);
    }
  }
}

/// ptxas puts rare paths after the kernel's end and branches back from them,
/// for example the second test of a barrier. These branches make no loop.
static std::vector<Loop> loopsOf(const Kernel &kernel) {
  std::map<size_t, size_t> last;
  std::optional<size_t> end;
  for (size_t i = 0; i < kernel.code.size(); ++i) {
    const Instruction &each = kernel.code[i];
    if (each.op == "EXIT" && each.guard.empty())
      end = i;
    auto target = kernel.target(each);
    if (target && *target < i && (!end || *end < *target))
      last[*target] = i;
  }
  return {last.begin(), last.end()};
}

std::map<std::string, Kernel> sass::readListing(StringRef listing) {
  std::map<std::string, Kernel> kernels;
  Kernel *kernel = nullptr;
  while (!listing.empty()) {
    StringRef line;
    std::tie(line, listing) = listing.split('\n');
    StringRef text = line.trim();
    if (text.starts_with(".section\t")) {
      StringRef name = text.split("\t.text.").second;
      kernel = name.empty() ? nullptr : &kernels[name.split(',').first.str()];
    } else if (kernel && line.starts_with(".L_x_")) {
      kernel->labels[text.split(':').first] = kernel->code.size();
    } else if (kernel && text.consume_front("/*") && text.contains(';')) {
      text = text.split("*/").second.split(';').first.trim();
      kernel->code.push_back(readInstruction(text));
    }
  }
  for (auto &[name, own] : kernels) {
    own.loops = loopsOf(own);
    measureBulk(own);
  }
  return kernels;
}
