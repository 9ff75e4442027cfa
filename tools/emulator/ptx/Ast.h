/// A PTX module as a syntax tree; names of labels and scopes are resolved.
#pragma once

#include "tools/emulator/ptx/Type.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria::emulator {

/// Why a text is not a PTX module that the emulator can run.
struct Error {
  enum Reason {
    Text,    ///< something in the text
    Version, ///< its PTX version is too new
    Target   ///< it is for another device
  };

  int line = 0; ///< of the PTX text, from 1; 0: the text as a whole
  std::string message;
  Reason reason = Text;
};

/// An argument of an instruction.
struct Operand {
  enum Kind {
    Name,    ///< register, special register, variable, label or function;
             ///< `+ value` after it
    Integer, ///< `value`
    Float32, ///< `value`: the bits
    Float64, ///< `value`: the bits
    Vector,  ///< {parts} or (parts)
    Address, ///< [name + value, parts]; no name: [value]
    Sink     ///< _
  };

  Kind kind = Name;
  std::string name;
  int64_t value = 0;
  bool negated = false;       ///< !p
  bool paired = false;        ///< d|p: p is parts[0]
  std::vector<Operand> parts; ///< of Vector, Address and pairs
};

/// The source location of an instruction, from the compiler that wrote the PTX.
struct Location {
  int file = 0, line = 0;               ///< file 0: not given
  int inlinedFile = 0, inlinedLine = 0; ///< the place it was inlined at
};

/// One instruction: `@pred opcode.modifiers operands;`.
struct Instruction {
  int line = 0;
  Location location;
  int scope = 0; ///< index into Function::scopes
  std::string predicate;
  bool predicateNegated = false;
  std::string text; ///< opcode and modifiers as written
  std::string opcode;
  std::vector<std::string> modifiers;
  std::vector<Operand> operands;
  std::vector<int> labels; ///< labels before it
};

/// How other modules see a name when modules are linked.
enum class Linkage {
  Private, ///< not at all
  Extern,  ///< `.extern`: the name is defined elsewhere
  Visible, ///< `.visible`: one module defines the name
  Weak     ///< `.weak`, `.common`: the first definition counts
};

/// A variable in memory.
struct Variable {
  /// An initializer that is the address of another variable.
  struct Relocation {
    uint64_t offset;
    std::string name;
    int64_t addend;
  };

  std::string name;
  std::string space; ///< global, const, shared, local or param
  int line = 0;
  uint64_t align = 1, size = 0;
  Linkage linkage = Linkage::Private;
  bool unsized = false; ///< x[]: dynamic shared memory
  bool isKnown = true;  ///< else of an unknown type: a texture, ...
  std::vector<uint8_t> initial;
  std::vector<Relocation> relocations;
};

/// A parameter or a result of a function.
struct Parameter {
  std::string name;
  uint64_t align = 1, size = 0, offset = 0; ///< in the parameter buffer
};

/// The results and parameters of a function that is called by its address.
struct Prototype {
  std::vector<Parameter> results, parameters;
};

/// A pair of braces in a body. It has its own registers, variables and labels.
struct Scope {
  /// Registers %r0 ... %r(count - 1), or one register.
  struct Registers {
    unsigned bits;
    uint64_t count;
  };

  int parent = -1;
  std::map<std::string, Registers, std::less<>> registers; ///< one by one
  std::map<std::string, Registers, std::less<>> ranges;    ///< `%r<count>`
  std::map<std::string, size_t, std::less<>> variables; ///< in the function's
  std::map<std::string, int, std::less<>> labels;
  /// The names in a list of labels or functions.
  std::map<std::string, std::vector<std::string>, std::less<>> targets;
  std::map<std::string, Prototype, std::less<>> prototypes;
};

/// A kernel (`.entry`) or a device function (`.func`).
struct Function {
  /// What `kind` of the scope, or of a scope around it, has under the name;
  /// null if none has it.
  template <typename Map>
  const typename Map::mapped_type *lookUp(Map Scope::*kind, int scope,
                                          std::string_view name) const {
    for (int s = scope; s >= 0; s = scopes[s].parent) {
      const Map &declarations = scopes[s].*kind;
      auto found = declarations.find(name);
      if (found != declarations.end())
        return &found->second;
    }
    return nullptr;
  }

  std::string name;
  Linkage linkage = Linkage::Private;
  bool isEntry = false;
  bool isDeclaration = true;
  bool hasAddress = false; ///< it is used other than in direct calls
  int line = 0;
  std::vector<Parameter> parameters, results;
  uint64_t parameterBytes = 0;
  std::vector<Variable> variables;
  std::vector<Scope> scopes;
  std::vector<Instruction> body;
  int labelCount = 0;
  std::array<unsigned, 3> maxThreads = {0, 0, 0}; ///< .maxntid, .reqntid
  bool requiresThreads = false;                   ///< .reqntid
  std::array<unsigned, 3> cluster = {0, 0, 0};    ///< .reqnctapercluster
  bool needsCluster = false;                      ///< .explicitcluster
  unsigned maxCluster = 0;                        ///< .maxclusterrank; 0: any
  std::optional<Error> refusal; ///< why the parser skipped a part that it does
                                ///< not know
};

/// A PTX text.
struct PtxModule {
  unsigned version = 0; ///< 80 for `.version 8.0`
  std::string target;   ///< sm_80, sm_90a, ...
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::map<int, std::string> files;
};

} // namespace cria::emulator
