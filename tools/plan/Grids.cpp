#include "tools/plan/Grids.h"

#include "llvm/Support/MathExtras.h"

using namespace cria;
namespace json = llvm::json;

int64_t cria::blocksOf(const json::Array &grid, int64_t tokens) {
  int64_t blocks = 1;
  for (const json::Value &size : grid) {
    if (std::optional<int64_t> number = size.getAsInteger()) {
      blocks *= *number;
      continue;
    }
    const json::Object &counted = *size.getAsObject();
    // The call asks for no hidden states.
    if (counted.get("hidden"))
      return 0;
    auto per = counted.getInteger("tokens");
    int64_t count = per ? tokens : 1;
    bool isIn = counted.getInteger("from").value_or(0) <= count &&
                count <= counted.getInteger("to").value_or(count);
    int64_t rounded =
        llvm::divideCeil(count, per ? *per : *counted.getInteger("logits"));
    blocks *=
        isIn ? std::max(rounded, counted.getInteger("least").value_or(0)) : 0;
  }
  return blocks;
}

/// Adds the blocks of each launch that has some and is named `prefix` or
/// `prefix` and then "_...".
static void addLaunches(const json::Array &steps, llvm::StringRef prefix,
                        int64_t tokens, std::vector<int64_t> &blocks) {
  for (const json::Value &step : steps) {
    const json::Object &launch = *step.getAsObject();
    if (const json::Array *body = launch.getArray("body")) {
      addLaunches(*body, prefix, tokens, blocks);
      continue;
    }
    llvm::StringRef name = launch.getString("launch").value_or("");
    if (!name.consume_front(prefix) || !(name.empty() || name[0] == '_'))
      continue;
    if (int64_t own = blocksOf(*launch.getArray("grid"), tokens))
      blocks.push_back(own);
  }
}

std::vector<int64_t> cria::blocksOfKernel(const json::Object &plan,
                                          llvm::StringRef entry,
                                          llvm::StringRef function,
                                          int64_t tokens) {
  std::vector<int64_t> blocks;
  if (const json::Array *steps = plan.getObject("entries")->getArray(entry))
    addLaunches(*steps, function, tokens, blocks);
  return blocks;
}
