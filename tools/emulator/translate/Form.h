/// The table of instructions: which modifiers and operands each opcode takes,
/// and the function that translates it. Everything else is an error.
///
/// A form's modifiers are groups, one word each, in the order in which PTX
/// prints them. Alternatives are separated by `|`. A `?` after a group: it may
/// be missing. A `~` before a group: it changes only speed, so no function has
/// to look at it. `$int`, `$bits`, `$memory` and `$space` stand for the usual
/// types and spaces. Each modifier of an instruction must belong to a group of
/// its own.
///
/// A form's operands are one letter each, with `?` after an optional one:
///   d  destination register, or `_`      s  source of any kind but an address
///   D  d, or a vector of them            S  s, or a vector of them
///   P  d, or a pair `d|p`                V  vector of sources
///   m  address in brackets               i  integer
///   n  name (label, function)            a  arguments in parentheses
///   t  box of a tensor, or texel: [map or object, {coordinates}]
#pragma once

#include "tools/emulator/ptx/Ast.h"

#include "llvm/ADT/ArrayRef.h"

#include <variant>

namespace cria::emulator {

class Emitter;

/// A row of the table.
struct Form {
  const char *opcode;
  const char *modifiers;
  const char *operands;
  void (*emit)(Emitter &emitter);
  unsigned since = 0; ///< the first compute capability that has it, 80 for 8.0
};

/// A row that fits an instruction, and which of the instruction's modifiers are
/// hints.
struct Match {
  const Form *form;
  std::vector<bool> isHint;
};

/// The row for `instruction` on a device of `capability`, or the reason that
/// there is none.
std::variant<Match, std::string> matchForm(const Instruction &instruction,
                                           unsigned capability);

/// Every row. A row's place in it is the row's number.
llvm::ArrayRef<Form> allForms();

/// The rows of one family, each beside its translation.
/// @{
llvm::ArrayRef<Form> integerForms();
llvm::ArrayRef<Form> videoForms();
llvm::ArrayRef<Form> bitForms();
llvm::ArrayRef<Form> floatForms();
llvm::ArrayRef<Form> compareForms();
llvm::ArrayRef<Form> convertForms();
llvm::ArrayRef<Form> memoryForms();
llvm::ArrayRef<Form> atomicForms();
llvm::ArrayRef<Form> textureForms();
llvm::ArrayRef<Form> controlForms();
llvm::ArrayRef<Form> callForms();
llvm::ArrayRef<Form> warpForms();
llvm::ArrayRef<Form> matrixForms();
llvm::ArrayRef<Form> wmmaForms();
llvm::ArrayRef<Form> asyncForms();
llvm::ArrayRef<Form> mbarrierForms();
llvm::ArrayRef<Form> bulkCopyForms();
llvm::ArrayRef<Form> warpgroupForms();
/// @}

} // namespace cria::emulator
