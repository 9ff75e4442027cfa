#include "tools/taps/ModuleNames.h"
#include "lowering/entry/LayerNumber.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;
namespace json = llvm::json;

ModuleNames::ModuleNames(const Manifest &manifest) {
  for (const json::Value &value : *manifest.object().getArray("weights"))
    if (const json::Object *weight = value.getAsObject())
      weights[weight->getString("symbol").value_or("")] = weight;
}

/// The name of the module of a weight, such as {"path":
/// "model.layers.{}.mlp.up_proj", "first": 0, "step": 1}; nothing if `value` is
/// no weight. In turn t, the number in the path is first + step * t.
std::optional<json::Object> ModuleNames::weightOf(Value value,
                                                  StringRef side) const {
  auto call = value.getDefiningOp<func::CallOp>();
  const json::Object *weight =
      call ? weights.lookup(call.getCallee()) : nullptr;
  if (!weight)
    return std::nullopt;
  StringRef path = weight->getString("name").value_or("");
  if (!path.consume_back(".weight"))
    path.consume_back(".bias");
  json::Object object{{"path", path}};
  if (!side.empty())
    object["side"] = side;
  std::optional<LayerNumber> layer;
  if (call.getNumOperands())
    layer = layerNumber(call.getOperand(0));
  if (layer) {
    object["first"] = layer->first + weight->getInteger("first").value_or(0);
    object["step"] = layer->step;
  }
  return object;
}

json::Array ModuleNames::modulesOf(func::CallOp call) const {
  json::Array modules;
  for (Value operand : call.getOperands()) {
    auto module = weightOf(operand, "");
    if (!module)
      continue;
    json::Value value(std::move(*module));
    if (!llvm::is_contained(modules, value)) // a bias follows its weight
      modules.push_back(std::move(value));
  }
  return modules;
}

/// Adds the name of `value` as the input of a module. In a call of a kernel,
/// the operand after a value is the first weight that the value is multiplied
/// with.
void ModuleNames::addInputs(Value value, json::Array &names,
                            bool firstTurn) const {
  for (OpOperand &use : value.getUses()) {
    unsigned next = use.getOperandNumber() + 1;
    auto user = dyn_cast<func::CallOp>(use.getOwner());
    if (!user || next >= user.getNumOperands())
      continue;
    auto name = weightOf(user.getOperand(next), "in");
    if (!name)
      continue;
    if (firstTurn && name->get("step"))
      (*name)["step"] = 0;
    names.push_back(std::move(*name));
  }
}

json::Array ModuleNames::of(OpResult result, const json::Array &modules) const {
  json::Array names;
  addInputs(result, names, false);
  for (OpOperand &use : result.getUses()) {
    if (auto loop = dyn_cast<scf::ForOp>(use.getOwner()))
      addInputs(loop.getTiedLoopRegionIterArg(&use), names, true);
    if (!isa<scf::YieldOp>(use.getOwner()) || modules.empty())
      continue;
    json::Object layer = *modules.front().getAsObject();
    StringRef path = *layer.getString("path");
    size_t number = path.find("{}");
    if (number == StringRef::npos)
      continue;
    layer["path"] = path.take_front(number + 2).str();
    layer["side"] = "out";
    names.push_back(std::move(layer));
  }
  return names;
}

json::Array ModuleNames::ofAttention(const json::Array &modules,
                                     StringRef side) {
  json::Array names;
  if (modules.empty())
    return names;
  json::Object name = *modules.back().getAsObject();
  name["path"] = name.getString("path")->rsplit('.').first.str();
  name["side"] = side;
  names.push_back(std::move(name));
  return names;
}
