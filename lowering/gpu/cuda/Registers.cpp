#include "lowering/gpu/cuda/Registers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#include <queue>
#include <vector>

using namespace llvm;
using namespace cria;

namespace {
/// A place in the text that names a register.
struct Mention {
  StringRef name; // "%rd12"
  StringRef kind; // "%rd"
  unsigned block; // the number of its basic block
  const char *statement;
  bool isDefinition;
  bool isInFlight; // read or written until a later statement waits
};

/// What is known of a register.
struct Register {
  unsigned block;
  bool isLocal;        // one basic block defines it and has all of its uses
  size_t last = 0;     // use
  unsigned number = 0; // its new one among local or other ones, from 1 on
};

/// The registers of a kind.
struct Kind {
  using Numbers = std::vector<unsigned>;
  unsigned global = 0, local = 0; // how many there are
  /// Of the basic block: how many local ones it has, and those that are free.
  unsigned ofBlock = 0;
  std::priority_queue<unsigned, Numbers, std::greater<>> free;

  /// Other registers come after this number: the same one in many kernels, so
  /// that these have equal text, too.
  unsigned before() const { return alignTo(local, 100); }
};
} // namespace

/// Whether the registers of a statement, up to one of them, may not be changed
/// before a later statement waits.
static bool isInFlight(StringRef before) {
  return before.ltrim("{ \t\n").starts_with("wgmma.mma_async");
}

/// Whether a statement, up to a register, has the register as its result.
static bool isResult(StringRef before) {
  // These have no result, or read the registers that are named first.
  static constexpr StringLiteral kOthers[] = {"@", "bar", "brx", "nanosleep",
                                              "wgmma"};
  before = before.trim();
  if (before.consume_front("{"))
    before = before.ltrim();
  return !before.split('{').first.contains(',') && !before.contains('}') &&
         !before.contains('[') &&
         none_of(kOthers, [&](StringRef op) { return before.starts_with(op); });
}

/// Whether a line begins with the target of a branch. Labels of line numbers,
/// $L__tmp12, are none.
static bool isLabel(StringRef code) {
  if (code.starts_with("$L__tmp"))
    return false;
  code = code.ltrim().drop_while(
      [](char c) { return isAlnum(c) || c == '_' || c == '$'; });
  return code.starts_with(":") && !code.starts_with("::");
}

static bool mayBranch(StringRef code) {
  return code.contains("bra") || code.contains("brx") ||
         code.contains("ret;") || code.contains("exit;");
}

/// The kind of register that a line declares, ".reg .b64 %rd<12>;"; or empty.
static StringRef declared(StringRef line) {
  if (!line.starts_with("\t.reg "))
    return {};
  return line.drop_front(std::min(line.find('%'), line.size()))
      .split('<')
      .first;
}

namespace {
/// Reads the statements of a kernel, line by line.
class Reader {
public:
  StringMap<Kind> kinds;
  std::vector<StringRef> declarations; // lines
  std::vector<Mention> uses;

  void read(StringRef line) {
    StringRef code = line.split("//").first;
    if (StringRef kind = declared(code); !kind.empty()) {
      kinds[kind];
      declarations.push_back(line);
      return;
    }
    if (!continues)
      statement = code.begin();
    block += isLabel(code);
    addUses(code);
    block += mayBranch(code);
    StringRef last = code.rtrim().take_back();
    continues = !last.empty() && !StringRef(";:{})").contains(last);
  }

private:
  void addUses(StringRef code) {
    for (size_t at = 0; at < code.size(); ++at) {
      StringRef rest = code.drop_front(at);
      if (rest.front() == ';')
        statement = rest.begin() + 1;
      if (rest.front() != '%')
        continue;
      StringRef kind = rest.take_until(isDigit);
      size_t digits = rest.drop_front(kind.size()).take_while(isDigit).size();
      if (!digits || !kinds.contains(kind))
        continue;
      StringRef before(statement, rest.begin() - statement);
      uses.push_back({rest.take_front(kind.size() + digits), kind, block,
                      statement, isResult(before), isInFlight(before)});
      at += uses.back().name.size() - 1;
    }
  }

  unsigned block = 0;
  const char *statement = nullptr;
  bool continues = false; // the statement, in the next line
};
} // namespace

/// Numbers the registers anew.
static void renumber(ArrayRef<Mention> uses, StringMap<Kind> &kinds,
                     StringMap<Register> &registers) {
  const Mention *before = nullptr;
  SmallVector<std::pair<Kind *, unsigned>> done; // in this statement
  for (auto [i, use] : enumerate(uses)) {
    if (!before || use.statement != before->statement) {
      for (auto [kind, number] : done)
        kind->free.push(number);
      done.clear();
    }
    if (!before || use.block != before->block)
      for (auto &each : kinds) {
        each.second.free = {};
        each.second.ofBlock = 0;
      }
    before = &use;
    Register &mine = registers[use.name];
    Kind &kind = kinds[use.kind];
    if (!mine.number && mine.isLocal) {
      if (kind.free.empty())
        kind.free.push(++kind.ofBlock);
      mine.number = kind.free.top();
      kind.free.pop();
      kind.local = std::max(kind.local, kind.ofBlock);
    } else if (!mine.number) {
      mine.number = ++kind.global;
    }
    if (mine.isLocal && i == mine.last)
      done.push_back({&kind, mine.number});
  }
}

std::string cuda::reuseRegisters(StringRef kernel) {
  Reader reader;
  for (StringRef line : split(kernel, '\n'))
    reader.read(line);
  StringMap<Register> registers;
  for (auto [i, use] : enumerate(reader.uses)) {
    Register &mine =
        registers.try_emplace(use.name, Register{use.block, use.isDefinition})
            .first->second;
    mine.isLocal &= mine.block == use.block && !use.isInFlight;
    mine.last = i;
  }
  renumber(reader.uses, reader.kinds, registers);
  std::string text;
  const char *next = kernel.begin();
  auto replace = [&](StringRef old, StringRef by) {
    text.append(next, old.begin());
    text += by;
    next = old.end();
  };
  for (StringRef line : reader.declarations) {
    StringRef kind = declared(line);
    const Kind &mine = reader.kinds[kind];
    StringRef upToCount(line.begin(), kind.end() + 1 - line.begin());
    replace(line,
            (upToCount + Twine(mine.before() + mine.global + 1) + ">;").str());
  }
  for (const Mention &use : reader.uses) {
    const Register &mine = registers[use.name];
    unsigned before = mine.isLocal ? 0 : reader.kinds[use.kind].before();
    replace(use.name, (use.kind + Twine(before + mine.number)).str());
  }
  text.append(next, kernel.end());
  return text;
}
