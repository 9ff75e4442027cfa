#include "tools/taps/ModuleNames.h"
#include "lowering/entry/LayerNumber.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;

ModuleNames::ModuleNames(const Manifest &manifest) {
  for (Attribute value : manifest.get<ArrayAttr>("weights"))
    if (auto weight = dyn_cast<DictionaryAttr>(value))
      weights.try_emplace(getText(weight, "symbol").value_or(""), weight);
}

/// The name of the module of a weight, such as {path =
/// "model.layers.{}.mlp.up_proj", first = 0, step = 1}; nothing if `value` is
/// no weight. In turn t, the number in the path is first + step * t.
std::optional<Fields> ModuleNames::weightOf(Value value, StringRef side) const {
  auto call = value.getDefiningOp<func::CallOp>();
  DictionaryAttr weight =
      call ? weights.lookup(call.getCallee()) : DictionaryAttr();
  if (!weight)
    return std::nullopt;
  StringRef path = getText(weight, "name").value_or("");
  if (!path.consume_back(".weight"))
    path.consume_back(".bias");
  Fields object(weight.getContext());
  object.set("path", path);
  if (!side.empty())
    object.set("side", side);
  std::optional<LayerNumber> layer;
  if (call.getNumOperands())
    layer = layerNumber(call.getOperand(0));
  if (layer)
    object.set("first", layer->first + getInteger(weight, "first").value_or(0))
        .set("step", layer->step);
  return object;
}

ModuleNames::Names ModuleNames::modulesOf(func::CallOp call) const {
  Names modules;
  for (Value operand : call.getOperands()) {
    std::optional<Fields> module = weightOf(operand, "");
    // A bias follows its weight.
    if (module && !llvm::is_contained(modules, module->object()))
      modules.push_back(*module);
  }
  return modules;
}

/// Adds the name of `value` as the input of a module. In a call of a kernel,
/// the operand after a value is the first weight that the value is multiplied
/// with.
void ModuleNames::addInputs(Value value, Names &names, bool firstTurn) const {
  for (OpOperand &use : value.getUses()) {
    unsigned next = use.getOperandNumber() + 1;
    auto user = dyn_cast<func::CallOp>(use.getOwner());
    if (!user || next >= user.getNumOperands())
      continue;
    std::optional<Fields> name = weightOf(user.getOperand(next), "in");
    if (!name)
      continue;
    if (firstTurn && name->get("step"))
      name->set("step", 0);
    names.push_back(*name);
  }
}

ModuleNames::Names ModuleNames::of(OpResult result,
                                   ArrayRef<DictionaryAttr> modules) const {
  Names names;
  addInputs(result, names, false);
  for (OpOperand &use : result.getUses()) {
    if (auto loop = dyn_cast<scf::ForOp>(use.getOwner()))
      addInputs(loop.getTiedLoopRegionIterArg(&use), names, true);
    if (!isa<scf::YieldOp>(use.getOwner()) || modules.empty())
      continue;
    StringRef path = *getText(modules.front(), "path");
    size_t number = path.find("{}");
    if (number == StringRef::npos)
      continue;
    names.push_back(Fields(result.getContext(), modules.front())
                        .set("path", path.take_front(number + 2))
                        .set("side", "out"));
  }
  return names;
}

ModuleNames::Names ModuleNames::ofAttention(ArrayRef<DictionaryAttr> modules,
                                            StringRef side) {
  if (modules.empty())
    return {};
  DictionaryAttr module = modules.back();
  StringRef path = *getText(module, "path");
  return {Fields(module.getContext(), module)
              .set("path", path.rsplit('.').first)
              .set("side", side)};
}
