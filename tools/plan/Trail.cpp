#include "tools/plan/Trail.h"

#include "dialect/Dialect.h"
#include "lowering/entry/Entry.h"
#include "lowering/memory/Bounds.h"

#include "mlir/Dialect/Bufferization/Transforms/BufferViewFlowAnalysis.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/AsmState.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cria;

static std::vector<std::string> splitLines(StringRef text) {
  std::vector<std::string> lines;
  for (StringRef line : llvm::split(text, '\n'))
    lines.push_back(line.str());
  return lines;
}

/// The line after an op that is printed from `line` on. The op's closing brace
/// has the indentation of its first line.
static int endOf(const std::vector<std::string> &lines, int line) {
  StringRef first = lines[line];
  if (!first.rtrim().ends_with("{"))
    return line + 1;
  size_t indent = first.find_first_not_of(' ');
  for (size_t i = line + 1; i < lines.size(); ++i) {
    StringRef text = lines[i];
    if (text.find_first_not_of(' ') == indent && text[indent] == '}')
      return static_cast<int>(i) + 1;
  }
  return line + 1;
}

/// The lines of `file` that a location names.
static void collectLines(Location location, StringRef file,
                         std::vector<int> &lines) {
  location->walk([&](Location inner) {
    if (auto at = dyn_cast<FileLineColLoc>(inner);
        at && at.getFilename() == file)
      lines.push_back(static_cast<int>(at.getLine()) - 1);
    return WalkResult::advance();
  });
  llvm::sort(lines);
  lines.erase(llvm::unique(lines), lines.end());
}

/// The name of an op that is a function or a kernel, else "".
static std::string functionName(Operation *op) {
  if (auto kernel = dyn_cast<llama::KernelOp>(op)) {
    auto entry = kernel->getParentOfType<func::FuncOp>();
    return (kernel.getKernelName() + "_" + entry.getName()).str();
  }
  if (isa<func::FuncOp, gpu::GPUFuncOp, LLVM::LLVMFuncOp>(op))
    if (auto region = cast<FunctionOpInterface>(op); !region.isExternal())
      return region.getName().str();
  return "";
}

/// Sets the location of an op. At import an op keeps its path, after which
/// kernels are named.
static void mark(Operation *op, Phase phase, Location place) {
  auto name = op->getLoc()->findInstanceOf<NameLoc>();
  bool keeps = phase == Phase::Import && name;
  op->setLoc(keeps ? Location(NameLoc::get(name.getName(), place)) : place);
}

int Trail::add(Listing listing, Device device) {
  std::vector<int> &own = ofDevice[device];
  listing.parent = own.empty() ? -1 : own.back();
  listings.push_back(std::move(listing));
  own.push_back(static_cast<int>(listings.size()) - 1);
  return own.back();
}

static std::vector<ArenaPlan> arenasOf(ModuleOp module);
static std::vector<GraphNode> graphOf(ModuleOp module);

void Trail::record(Phase phase, ModuleOp module, Device device) {
  if (phase == Phase::Fuse) // later phases have no paths in locations
    graph = graphOf(module);
  if (phase == Phase::Tile)
    arenas[device] = arenasOf(module);
  AsmState::LocationMap places;
  AsmState state(module, OpPrintingFlags(), &places);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, state);
  Listing listing;
  listing.phase = phases()[static_cast<int>(phase)].name;
  listing.lines = splitLines(text);
  listing.from.resize(listing.lines.size());
  ArrayRef<Phase> order = phasesOf(device);
  auto at = llvm::find(order, phase);
  std::string before =
      phase == Phase::Import ? "" : dumpName(device, *std::prev(at));
  std::string own = dumpName(device, phase);
  module->walk([&](Operation *op) {
    auto place = places.find(op);
    if (place == places.end() || op == module)
      return;
    auto [line, column] = place->second;
    int number = static_cast<int>(line) - 1;
    collectLines(op->getLoc(), before, listing.from[number]);
    if (std::string name = functionName(op); !name.empty())
      listing.functions[name] = {number, endOf(listing.lines, number)};
    // PTX refers to lines of tile, so llvm keeps the locations of tile.
    if (phase != Phase::Llvm)
      mark(op, phase, FileLineColLoc::get(op->getContext(), own, line, column));
  });
  add(std::move(listing), device);
}

/// The number that PTX gives a file. PTX has the .file directives at its end.
static int64_t fileNumber(StringRef text, StringRef file) {
  for (StringRef line : llvm::split(text, '\n')) {
    int64_t number = 0;
    line = line.ltrim();
    if (!line.consume_front(".file") || !line.contains(file))
      continue;
    line = line.ltrim();
    if (!line.consumeInteger(10, number))
      return number;
  }
  return -1;
}

/// Records PTX, whose .loc directives name the lines of tile that instructions
/// come from.
void Trail::recordPtx(StringRef text, Device device) {
  Listing listing;
  listing.phase = "ptx";
  int64_t number = fileNumber(text, dumpName(device, Phase::Tile)), at = -1;
  std::string function;
  for (StringRef line : llvm::split(text, '\n')) {
    StringRef body = line.ltrim();
    if (body.consume_front(".loc")) {
      int64_t from = 0, read = 0;
      body = body.ltrim();
      bool known = !body.consumeInteger(10, from) &&
                   !(body = body.ltrim()).consumeInteger(10, read);
      at = known && from == number && read > 0 ? read - 1 : -1;
      continue;
    }
    int here = static_cast<int>(listing.lines.size());
    if (auto [head, name] = line.split(".entry "); !name.empty()) {
      function = name.split('(').first.str();
      listing.functions[function] = {here, here};
      at = -1;
    }
    bool computes = line.starts_with("\t") && !body.starts_with(".") &&
                    !body.starts_with("//") && !body.empty();
    listing.lines.push_back(line.str());
    listing.from.emplace_back();
    if (computes && at >= 0)
      listing.from.back().push_back(static_cast<int>(at));
    if (line == "}" && !function.empty()) {
      listing.functions[function].second = here + 1;
      function.clear();
    }
  }
  int index = add(std::move(listing), device);
  // The parent of PTX is tile, not llvm.
  listings[index].parent = *std::prev(ofDevice[device].end(), 3);
}

llvm::Error Trail::follow(const Compilation &compilation,
                          ArrayRef<Device> devices) {
  Compilation shared = compilation.fork(devices.front());
  shared.listen([&](Phase phase, ModuleOp module) {
    record(phase, module, devices.front());
  });
  if (llvm::Error error = shared.advance(Phase::Fuse))
    return error;
  for (Device device : devices.drop_front())
    ofDevice[device] = ofDevice[devices.front()];
  for (Device device : devices) {
    Compilation copy = shared.fork(device);
    bool heard = false; // the first call is for a phase recorded already
    copy.listen([&](Phase phase, ModuleOp module) {
      if (heard)
        record(phase, module, device);
      heard = true;
    });
    bool isCpu = device == Device::Cpu;
    if (llvm::Error error = copy.advance(isCpu ? Phase::Llvm : Phase::Ptx))
      return error;
    if (!isCpu)
      recordPtx(copy.cudaImage().ptx(), device);
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// The kernel that an op of an entry calls or launches, or "".
static std::string stepName(Operation *op) {
  if (auto launch = dyn_cast<gpu::LaunchFuncOp>(op))
    return launch.getKernelName().str();
  auto call = dyn_cast<func::CallOp>(op);
  auto callee = call ? SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
                           op, call.getCalleeAttr())
                     : func::FuncOp();
  return callee && !callee.isDeclaration() ? callee.getName().str() : "";
}

namespace {
/// The steps of an entry (its calls and launches of kernels), and the range of
/// steps in each loop.
struct Steps {
  explicit Steps(func::FuncOp entry) {
    entry.walk<WalkOrder::PreOrder>([&](Operation *op) {
      std::string name = stepName(op);
      if (name.empty())
        return;
      int number = static_cast<int>(names.size());
      names.push_back(std::move(name));
      for (Operation *at = op; at != entry; at = at->getParentOp())
        if (auto [range, isNew] = ranges.try_emplace(at, number, number);
            !isNew)
          range->second.second = number;
    });
  }
  std::vector<std::string> names;
  /// For an op that is a step or contains steps, the first and the last of
  /// them.
  llvm::DenseMap<Operation *, std::pair<int, int>> ranges;
};
} // namespace

/// The most bytes of a view of the arena.
static int64_t bytesOf(memref::ViewOp view, const Bounds &bounds) {
  MemRefType type = view.getType();
  int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  for (int64_t size : type.getShape())
    bytes *= ShapedType::isDynamic(size) ? 1 : size;
  for (Value size : view.getSizes())
    bytes *= bounds.most(size).value_or(1);
  return bytes;
}

static ArenaPlan arenaOf(func::FuncOp entry) {
  ArenaPlan plan;
  plan.entry = entry.getName().str();
  plan.bytes = entry->getAttrOfType<IntegerAttr>(kArenaBytesAttribute).getInt();
  Steps steps(entry);
  plan.steps = steps.names;
  BufferViewFlowAnalysis aliases(entry);
  Bounds bounds(entry);
  entry.walk([&](memref::ViewOp view) {
    std::optional<int64_t> offset = getConstantIntValue(view.getByteShift());
    if (!offset)
      return;
    ArenaBuffer buffer = {*offset, bytesOf(view, bounds), -1, -1};
    for (Value alias : aliases.resolve(view.getResult()))
      for (Operation *user : alias.getUsers()) {
        Operation *own = view->getBlock()->findAncestorOpInBlock(*user);
        auto range = own ? steps.ranges.find(own) : steps.ranges.end();
        if (range == steps.ranges.end())
          continue;
        auto [first, last] = range->second;
        buffer.first = buffer.first < 0 ? first : std::min(buffer.first, first);
        buffer.last = std::max(buffer.last, last);
      }
    if (buffer.first >= 0)
      plan.buffers.push_back(buffer);
  });
  return plan;
}

static std::vector<ArenaPlan> arenasOf(ModuleOp module) {
  std::vector<ArenaPlan> plans;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(kArenaBytesAttribute))
      plans.push_back(arenaOf(function));
  return plans;
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

namespace {
/// Finds the kernels that a value comes from.
class Producers {
public:
  Producers(const llvm::DenseMap<Operation *, int> &nodes, GraphNode &node)
      : nodes(nodes), node(node) {}

  void add(Value value, bool carried = false) {
    if (!(carried ? seenCarried : seen).insert(value).second)
      return;
    Operation *op = value.getDefiningOp();
    if (auto argument = dyn_cast<BlockArgument>(value))
      return addArgument(argument, carried);
    if (auto kernel = nodes.find(op); kernel != nodes.end()) {
      std::vector<int> &list = carried ? node.carried : node.inputs;
      if (!llvm::is_contained(list, kernel->second))
        list.push_back(kernel->second);
      return;
    }
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      unsigned number = cast<OpResult>(value).getResultNumber();
      return add(loop.getYieldedValues()[number], carried);
    }
    if (isa<tensor::ExtractSliceOp, tensor::CollapseShapeOp,
            tensor::ExpandShapeOp>(op))
      add(op->getOperand(0), carried);
  }

private:
  /// Adds the kernels that make a value which a loop carries: before the loop,
  /// or in the turn before.
  void addArgument(BlockArgument argument, bool carried) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop || argument == loop.getInductionVar())
      return;
    add(loop.getTiedLoopInit(argument)->get(), carried);
    add(loop.getTiedLoopYieldedValue(argument)->get(), /*carried=*/true);
  }

  const llvm::DenseMap<Operation *, int> &nodes;
  GraphNode &node;
  llvm::DenseSet<Value> seen, seenCarried;
};
} // namespace

static std::vector<GraphNode> graphOf(ModuleOp module) {
  std::vector<GraphNode> graph;
  auto entry = module.lookupSymbol<func::FuncOp>("decode");
  if (!entry) // a program that generates no text has no decode
    entry = module.lookupSymbol<func::FuncOp>("prefill");
  if (!entry)
    return graph;
  llvm::DenseMap<Operation *, int> nodes, loops;
  SmallVector<llama::KernelOp> kernels;
  entry.walk([&](llama::KernelOp kernel) {
    nodes[kernel] = static_cast<int>(kernels.size());
    kernels.push_back(kernel);
  });
  for (llama::KernelOp kernel : kernels) {
    GraphNode node;
    node.function = functionName(kernel);
    if (auto loop = kernel->getParentOfType<scf::ForOp>()) {
      node.loop =
          loops.try_emplace(loop, static_cast<int>(loops.size())).first->second;
      if (std::optional<APInt> turns = loop.getStaticTripCount())
        node.runs = turns->getSExtValue();
    }
    Producers producers(nodes, node);
    kernel->walk([&](Operation *op) {
      if (op == kernel || isa<llama::YieldOp>(op))
        return;
      std::string path;
      if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
        path = name.getName().str();
      if (isa<llama::LlamaDialect>(op->getDialect()))
        node.ops.push_back({op->getName().stripDialect().str(), path});
      for (Value operand : op->getOperands())
        if (!kernel.getBody().isAncestor(operand.getParentRegion()))
          producers.add(operand);
    });
    graph.push_back(std::move(node));
  }
  return graph;
}
