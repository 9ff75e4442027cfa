/// model.layers.*.self_attn.q_proj, .k_proj, .v_proj  =>  layers_attn_qkv
#include "passes/Kernel.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Path = SmallVector<std::string>;

/// One component of a module path in the form that kernel names have; empty if
/// it is dropped.
static std::string shorten(StringRef component) {
  bool number = llvm::all_of(component, llvm::isDigit);
  bool isModel = component == "model" || component == "transformer" ||
                 component == "gpt_neox";
  if (number || isModel || component == "*")
    return "";
  StringRef known = llvm::StringSwitch<StringRef>(component)
                        .Case("self_attn", "attn")
                        .Case("attention", "attn")
                        .Cases({"embed_in", "embed_tokens", "wte"}, "embed")
                        .Case("embed_out", "head")
                        .Case("h", "layers")
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

/// The components of the op's module path; empty if its location has no name.
static Path modulePath(Operation *op) {
  Path path;
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    for (StringRef component : llvm::split(name.getName().getValue(), '.'))
      path.push_back(component.str());
  return path;
}

/// The components of a path in the form that kernel names have, without those
/// that are dropped.
static Path shorten(ArrayRef<std::string> path) {
  Path name;
  for (StringRef component : path)
    if (std::string part = shorten(component); !part.empty())
      name.push_back(std::move(part));
  return name;
}

/// The number of first components that all paths share.
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

/// The components of each path after the common ones. Single letters are joined
/// to one word.
static Path distinct(ArrayRef<Path> paths, size_t common) {
  Path name;
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
  return name;
}

/// The paths that a kernel of these ops is named after; none if locations have
/// no path.
static SmallVector<Path> namingPaths(ArrayRef<Operation *> ops) {
  SmallVector<Path> paths;
  for (Operation *op : ops)
    if (isa<EmbedOp, LinearOp, ExpertLinearOp, HeadLinearOp, HeadOp, GQAOp,
            CausalConvOp>(op))
      if (Path path = modulePath(op); !path.empty())
        paths.push_back(std::move(path));
  if (!paths.empty())
    return paths;
  Path path = modulePath(ops.back());
  if (path.empty())
    return paths;
  path.push_back(ops.back()->getName().stripDialect().str());
  paths.push_back(std::move(path));
  return paths;
}

std::string cria::kernelName(ArrayRef<Operation *> ops) {
  SmallVector<Path> paths;
  for (const Path &path : namingPaths(ops))
    paths.push_back(shorten(path));
  if (paths.empty())
    return "";
  size_t common = commonLength(paths);
  Path name(paths.front().begin(), paths.front().begin() + common);
  name.append(distinct(paths, common));
  std::string joined = llvm::join(name, "_");
  return !joined.empty() && llvm::isDigit(joined.front()) ? "_" + joined
                                                          : joined;
}

std::string cria::kernelPath(ArrayRef<Operation *> ops) {
  SmallVector<Path> paths = namingPaths(ops);
  if (paths.empty())
    return "";
  size_t common = commonLength(paths);
  Path path(paths.front().begin(), paths.front().begin() + common);
  for (Path &each : paths)
    each = shorten(ArrayRef(each).drop_front(common));
  if (std::string rest = llvm::join(distinct(paths, 0), "_"); !rest.empty())
    path.push_back(rest);
  return llvm::join(path, ".");
}
