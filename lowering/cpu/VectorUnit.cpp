#include "lowering/cpu/VectorUnit.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace cria;

namespace {
struct Flag {
  StringLiteral name;
  bool VectorUnit::*member;
};
struct Number {
  StringLiteral name;
  int64_t VectorUnit::*member;
  std::initializer_list<int64_t> values; // that schedules are written for
};
} // namespace

static constexpr Flag kFlags[] = {
    {"amx", &VectorUnit::amx},
    {"amx_bytes", &VectorUnit::amxBytes},
    {"block_for_l2", &VectorUnit::blockForL2},
    {"dot_bf16", &VectorUnit::dotBf16},
    {"dot_bytes", &VectorUnit::dotBytes},
    {"mmla_bf16", &VectorUnit::mmlaBf16},
    {"mmla_bytes", &VectorUnit::mmlaBytes},
    {"neon", &VectorUnit::neon},
};
static const Number kNumbers[] = {
    {"lanes", &VectorUnit::lanes, {4, 8, 16}},
    {"registers", &VectorUnit::registers, {16, 32}},
    {"streams", &VectorUnit::streams, {1, 4, 8}},
};

/// Sets the property that an entry of the attribute names. Fails if there is no
/// such property, or if it cannot have this value.
static LogicalResult set(VectorUnit &unit, NamedAttribute entry) {
  for (const Flag &flag : kFlags)
    if (entry.getName() == flag.name)
      return success(unit.*flag.member = isa<UnitAttr>(entry.getValue()));
  for (const Number &number : kNumbers)
    if (entry.getName() == number.name) {
      auto value = dyn_cast<IntegerAttr>(entry.getValue());
      if (!value || !value.getType().isInteger(64) ||
          !llvm::is_contained(number.values, value.getInt()))
        return failure();
      unit.*number.member = value.getInt();
      return success();
    }
  return failure();
}

/// All properties, with the values that each may have: "amx, ..., lanes = 8 or
/// 16, ...".
static std::string known() {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const Flag &flag : kFlags)
    os << flag.name << ", ";
  llvm::interleaveComma(kNumbers, os, [&](const Number &number) {
    os << number.name << " = ";
    llvm::interleave(number.values, os, " or ");
  });
  return text;
}

FailureOr<VectorUnit> VectorUnit::of(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  VectorUnit unit;
  Attribute attribute = module ? module->getAttr(kAttribute) : Attribute();
  if (!attribute)
    return unit;
  auto entries = dyn_cast<DictionaryAttr>(attribute);
  if (!entries || llvm::any_of(entries, [&](NamedAttribute entry) {
        return failed(set(unit, entry));
      }))
    return module.emitError("expected '")
           << kAttribute << "' to have no other entries than " << known()
           << ", got " << attribute;
  return unit;
}

std::string VectorUnit::text() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const Flag &flag : kFlags)
    if (this->*flag.member)
      os << flag.name << ", ";
  llvm::interleaveComma(kNumbers, os, [&](const Number &number) {
    os << number.name << " = " << this->*number.member;
  });
  return text;
}

LogicalResult VectorUnit::store(StringRef text, ModuleOp module) {
  Attribute attribute =
      parseAttribute(("{" + text + "}").str(), module.getContext());
  if (!attribute)
    return failure();
  module->setAttr(kAttribute, attribute);
  return of(module);
}
