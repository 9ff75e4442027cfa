#include "tools/emulator/ptx/Parser.h"

#include "tools/emulator/ptx/Body.h"
#include "tools/emulator/ptx/Declarations.h"

#include "llvm/ADT/StringExtras.h"

namespace cria::emulator {
namespace {

void placeParameters(Function &function) {
  uint64_t offset = 0;
  for (Parameter &parameter : function.parameters) {
    parameter.offset = alignTo(offset, parameter.align);
    offset = parameter.offset + parameter.size;
  }
  function.parameterBytes = offset;
}

/// Marks functions whose address is used: by an instruction, or in a variable.
class AddressFinder {
public:
  explicit AddressFinder(PtxModule &module) {
    for (Function &function : module.functions)
      functions.emplace(function.name, &function);
    for (const Variable &variable : module.variables)
      for (const Variable::Relocation &relocation : variable.relocations)
        mark(relocation.name);
    for (const Function &function : module.functions)
      for (const Instruction &instruction : function.body)
        for (const Operand &operand : instruction.operands)
          if (instruction.opcode != "call")
            visit(operand);
    for (const Function &function : module.functions)
      for (const Scope &scope : function.scopes)
        for (const auto &[name, list] : scope.targets)
          for (const std::string &target : list)
            mark(target);
  }

private:
  void visit(const Operand &operand) {
    mark(operand.name);
    for (const Operand &part : operand.parts)
      visit(part);
  }
  // A function may be declared before it is defined.
  void mark(const std::string &name) {
    auto [begin, end] = functions.equal_range(name);
    for (auto i = begin; i != end; ++i)
      i->second->hasAddress = true;
  }

  std::multimap<std::string, Function *> functions;
};

class ModuleParser {
public:
  explicit ModuleParser(llvm::StringRef text) : cursor(lex(text)) {}

  std::variant<PtxModule, Error> run() {
    if (!cursor.here().isWord(".version"))
      cursor.fail("expected .version");
    while (!cursor.atEnd())
      directive();
    if (cursor.failed())
      return cursor.error();
    AddressFinder{module};
    return std::move(module);
  }

private:
  void directive() {
    llvm::StringRef name = cursor.word();
    if (name == ".version")
      version();
    else if (name == ".target")
      target();
    else if (name == ".address_size")
      addressSize();
    else if (name == ".file")
      file();
    else if (name == ".section")
      section();
    else if (name == ".extern")
      linkage = Linkage::Extern;
    else if (name == ".visible")
      linkage = Linkage::Visible;
    else if (name == ".weak" || name == ".common")
      linkage = Linkage::Weak;
    else if (name == ".global" || name == ".shared" || name == ".const")
      variable(name.drop_front());
    else if (name == ".entry" || name == ".func")
      function(name == ".entry");
    else if (name == ".pragma" || name == ".alias") // calls of an alias are
                                                    // refused
      cursor.skipPast(';');
    else
      cursor.fail("unknown directive '" + name + "'");
  }

  void version() {
    auto [major, minor] = cursor.word().split('.');
    unsigned high, low;
    if (major.getAsInteger(10, high) || minor.getAsInteger(10, low) ||
        high > 99 || low > 9)
      cursor.fail("expected a version such as 8.0");
    else
      module.version = high * 10 + low;
  }

  void target() {
    module.target = cursor.word().str();
    while (cursor.eat(','))
      cursor.word();
  }

  void addressSize() {
    if (cursor.count(64) != 64)
      cursor.fail("expected an address size of 64");
  }

  void file() {
    int line = cursor.line();
    int number = int(cursor.count(INT32_MAX));
    module.files[number] = cursor.here().text.str();
    if (!cursor.atEnd() && cursor.line() == line)
      cursor.skipLine();
  }

  // Skips debug information, in braces.
  void section() {
    cursor.skipPast('{');
    for (int depth = 1; depth > 0 && !cursor.atEnd();) {
      depth += cursor.here().is('{') - cursor.here().is('}');
      cursor.take();
    }
  }

  void variable(llvm::StringRef space) {
    Variable result = parseVariable(cursor, space);
    result.linkage = std::exchange(linkage, Linkage::Private);
    cursor.expect(';');
    module.variables.push_back(std::move(result));
  }

  void function(bool isEntry) {
    Function result;
    result.isEntry = isEntry;
    result.line = cursor.line();
    result.linkage = std::exchange(linkage, Linkage::Private);
    if (cursor.here().is('('))
      result.results = parseParameters(cursor);
    result.name = cursor.word().str();
    if (cursor.here().is('('))
      result.parameters = parseParameters(cursor);
    placeParameters(result);
    while (cursor.here().kind == Token::Word)
      attribute(result);
    if (cursor.here().is('{')) {
      result.isDeclaration = false;
      parseBody(cursor, result);
    } else {
      cursor.expect(';');
    }
    module.functions.push_back(std::move(result));
  }

  // The launch bounds that the PTX promises to ptxas matter only if a launch
  // may break them.
  void attribute(Function &result) {
    llvm::StringRef name = cursor.word();
    if (name == ".maxntid" || name == ".reqntid") {
      result.requiresThreads = name == ".reqntid";
      result.maxThreads = sizes();
    } else if (name == ".reqnctapercluster") {
      result.cluster = sizes();
    } else if (name == ".explicitcluster") {
      result.needsCluster = true;
    } else if (name == ".maxclusterrank") {
      result.maxCluster = unsigned(cursor.count(1 << 16));
    } else if (name == ".minnctapersm" || name == ".maxnreg") {
      cursor.count(1 << 16);
    } else if (name == ".pragma") {
      cursor.skipPast(';');
    } else if (name != ".noreturn") {
      refuse(result, name);
    }
  }

  std::array<unsigned, 3> sizes() {
    std::array<unsigned, 3> all = {1, 1, 1};
    size_t i = 0;
    do
      all[i++] = unsigned(cursor.count(1 << 16));
    while (i < 3 && cursor.eat(','));
    return all;
  }

  // An unknown attribute may change what the function does; the rest of the
  // module does not depend on it.
  void refuse(Function &result, llvm::StringRef attribute) {
    if (!attribute.starts_with("."))
      return cursor.fail("expected '{', got '" + attribute + "'");
    if (!result.refusal)
      result.refusal =
          Error{cursor.line(),
                ("unknown attribute '" + attribute + "' of a function").str()};
    while (!cursor.atEnd() && !cursor.here().is('{') &&
           !cursor.here().is(';') && !cursor.here().text.starts_with("."))
      cursor.take();
  }

  Cursor cursor;
  PtxModule module;
  Linkage linkage = Linkage::Private; ///< of what comes next
};

} // namespace

std::variant<PtxModule, Error> parsePtx(llvm::StringRef text) {
  return ModuleParser(text).run();
}

} // namespace cria::emulator
