/// model.layers.*.self_attn.q_proj, .k_proj, .v_proj  =>  layers_attn_qkv
#include "passes/Kernel.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Path = SmallVector<std::string>;

/// One component of a module path as names have it; empty where it says
/// nothing.
static std::string shorten(StringRef component) {
  bool number = llvm::all_of(component, llvm::isDigit);
  if (number || component == "*" || component == "model")
    return "";
  StringRef known = llvm::StringSwitch<StringRef>(component)
                        .Case("self_attn", "attn")
                        .Case("embed_tokens", "embed")
                        .Case("lm_head", "head")
                        .Case("o_proj", "out")
                        .Default(component);
  known.consume_back("_proj");
  std::string name = known.str();
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  return name;
}

/// The components of the op's module path; none where its location has no name.
static Path modulePath(Operation *op) {
  Path path;
  auto name = op->getLoc()->findInstanceOf<NameLoc>();
  if (!name)
    return path;
  for (StringRef component : llvm::split(name.getName().getValue(), '.')) {
    std::string part = shorten(component);
    if (!part.empty())
      path.push_back(std::move(part));
  }
  return path;
}

/// How many components all paths start with.
static size_t commonLength(ArrayRef<Path> paths) {
  size_t length = paths.front().size();
  for (const Path &path : paths) {
    size_t i = 0;
    while (i < std::min(length, path.size()) && path[i] == paths.front()[i])
      ++i;
    length = i;
  }
  return length;
}

/// The common path, then the rest of each: single letters in one word.
static std::string join(ArrayRef<Path> paths) {
  size_t common = commonLength(paths);
  Path name(paths.front().begin(), paths.front().begin() + common);
  bool inWord = false;
  for (const Path &path : paths) {
    ArrayRef<std::string> rest = ArrayRef(path).drop_front(common);
    bool letter = rest.size() == 1 && rest.front().size() == 1;
    if (letter && inWord)
      name.back() += rest.front();
    else
      name.append(rest.begin(), rest.end());
    inWord = letter;
  }
  std::string joined = llvm::join(name, "_");
  return !joined.empty() && llvm::isDigit(joined.front()) ? "_" + joined
                                                          : joined;
}

std::string cria::kernelName(ArrayRef<Operation *> ops) {
  SmallVector<Path> paths;
  for (Operation *op : ops)
    if (isa<EmbedOp, LinearOp, HeadOp, GQAOp>(op))
      if (Path path = modulePath(op); !path.empty())
        paths.push_back(std::move(path));
  if (paths.empty()) {
    Path path = modulePath(ops.back());
    if (path.empty())
      return "";
    path.push_back(ops.back()->getName().stripDialect().str());
    paths.push_back(std::move(path));
  }
  return join(paths);
}
