#include "lowering/import/keys/Keys.h"

#include "runtime/base/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cfloat>

using namespace cria;
using nlohmann::json;

int64_t keys::ofLayers(Reader &reader, llvm::StringRef key, int64_t low,
                       int64_t high) {
  const json *list = reader.find(key);
  if (!list || !list->is_array())
    return reader.integer(key, low, high);
  std::optional<int64_t> number;
  if (!list->empty() && llvm::all_equal(*list))
    number = wholeNumber(list->front());
  if (number && *number >= low && *number <= high)
    return *number;
  reader.failKey(key, "expected one integer for all layers, from " +
                          llvm::Twine(low) + " to " + llvm::Twine(high) +
                          ", got " + shownJson(*list));
  return low;
}

void keys::addLayers(Reader &reader, llvm::StringRef key,
                     std::vector<int64_t> &to) {
  const json *list = reader.find(key);
  if (!list)
    return;
  for (const json &layer : list->is_array() ? *list : json::array({*list}))
    if (std::optional<int64_t> number = wholeNumber(layer);
        list->is_array() && number && *number >= 0)
      to.push_back(*number);
    else
      reader.failKey(key, "expected a list of layers, got " + shownJson(*list));
}

void keys::factors(Reader &reader, llvm::StringRef key,
                   llvm::ArrayRef<double *> to) {
  const json *list = reader.find(key);
  if (!list)
    return;
  bool fits = list->is_array() && list->size() == to.size();
  for (size_t i = 0; fits && i < to.size(); ++i)
    if ((fits = (*list)[i].is_number()))
      *to[i] = (*list)[i].get<double>();
  if (!fits || llvm::any_of(to, [](double *factor) {
        return !(*factor >= FLT_MIN && *factor <= FLT_MAX);
      }))
    reader.failKey(key, "expected a list of " + llvm::Twine(to.size()) +
                            " positive f32, got " + shownJson(*list));
}

std::optional<GateFunction> cria::gateNamed(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<GateFunction>>(name)
      .Cases({"silu", "swish"}, GateFunction::Silu)
      .Cases({"gelu_pytorch_tanh", "gelu_new", "gelu_fast"},
             GateFunction::GeluTanh)
      .Case("gelu", GateFunction::Gelu)
      .Case("relu", GateFunction::Relu)
      .Case("relu2", GateFunction::Relu2)
      .Case("quick_gelu", GateFunction::QuickGelu)
      .Default(std::nullopt);
}

GateFunction keys::functionOf(Reader &reader, llvm::StringRef key,
                              const Draft &draft) {
  std::string name = reader.text(key, std::nullopt);
  if (draft.family->geluIsTanh && name == "gelu")
    name = "gelu_pytorch_tanh";
  auto found = gateNamed(name);
  if (!found)
    reader.failKey(key, "expected silu, swish, gelu_pytorch_tanh, gelu_new, "
                        "gelu_fast, gelu, relu, relu2 or quick_gelu, got " +
                            shownJson(name));
  return found.value_or(GateFunction::Silu);
}
