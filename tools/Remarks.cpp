#include "tools/Remarks.h"

#include "dialect/Dialect.h"
#include "lowering/entry/Costs.h"
#include "lowering/support/WriteFile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Remarks/RemarkSerializer.h"

#include <map>
#include <set>

using namespace mlir;
using namespace cria;

using LlvmRemark = llvm::remarks::Remark;

/// The key of a remark's argument that has the path of a model's module.
static constexpr StringLiteral kModule = "Module";

//===----------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------===//

class Remarks::Streamer : public remark::detail::MLIRRemarkStreamerBase {
public:
  Streamer(Remarks &remarks) : to(remarks) {}
  void streamOptimizationRemark(const remark::detail::Remark &remark) override;

private:
  Remarks &to;
};

void Remarks::Streamer::streamOptimizationRemark(
    const remark::detail::Remark &remark) {
  llvm::sys::ScopedLock lock(to.mutex);
  LlvmRemark copy;
  copy.RemarkType = remark.getRemarkType();
  copy.PassName = to.saver.save(remark.getCombinedCategoryName());
  copy.RemarkName = to.saver.save(remark.getRemarkName());
  copy.FunctionName = to.saver.save(remark.getFunction());
  auto add = [&](StringRef key, StringRef value) {
    copy.Args.emplace_back(to.saver.save(key), to.saver.save(value));
  };
  Location loc = remark.getLocation();
  if (auto file = loc->findInstanceOf<FileLineColLoc>())
    copy.Loc = {to.saver.save(file.getFilename().getValue()), file.getLine(),
                file.getColumn()};
  if (auto name = loc->findInstanceOf<NameLoc>())
    add(kModule, name.getName().getValue());
  for (const remark::detail::Remark::Arg &arg : remark.getArgs())
    add(arg.key, arg.val);
  to.all.push_back(std::move(copy));
}

void Remarks::collect(MLIRContext &context, bool prints) {
  // `all` alone would let no remark pass.
  remark::RemarkCategories categories{".*", ".*", ".*", ".*", ".*"};
  (void)remark::enableOptimizationRemarks(
      context, std::make_unique<Streamer>(*this),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories,
      /*printAsEmitRemarks=*/prints);
}

SmallVector<const LlvmRemark *> Remarks::sorted() const {
  SmallVector<const LlvmRemark *> result;
  for (const LlvmRemark &remark : all)
    result.push_back(&remark);
  llvm::stable_sort(result, [](const LlvmRemark *a, const LlvmRemark *b) {
    return a->FunctionName < b->FunctionName;
  });
  return result;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// "rmsnorm, linear x3, rope x2": the ops of a kernel that compute.
static std::string opsOf(llama::KernelOp kernel) {
  llvm::MapVector<StringRef, unsigned> counts;
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (!isa<tensor::TensorDialect>(op.getDialect()))
      ++counts[isa<llama::LlamaDialect>(op.getDialect())
                   ? op.getName().stripDialect()
                   : op.getName().getStringRef()];
  std::string text;
  for (auto [name, count] : counts) {
    text += (text.empty() ? "" : ", ") + name.str();
    if (count > 1)
      text += " x" + std::to_string(count);
  }
  return text;
}

namespace {
/// Kernels that one loop runs, or kernels outside of loops.
struct KernelRow {
  std::string name, ops;
};
struct KernelGroup {
  std::vector<KernelRow> rows;
  int64_t first = 0, last = 0, step = 0; // layers
  void add(llama::KernelOp kernel, const KernelCost &cost);
  std::string title(bool isOnly) const;
};
} // namespace

void KernelGroup::add(llama::KernelOp kernel, const KernelCost &cost) {
  rows.push_back({cost.kernel, opsOf(kernel)});
  if (cost.runs == 1 || cost.layerStep == 0)
    return;
  int64_t end = cost.firstLayer + (cost.runs - 1) * cost.layerStep;
  first = step ? std::min(first, cost.firstLayer) : cost.firstLayer;
  last = std::max(last, end);
  step = cost.layerStep;
}

/// "layers 0 to 25, 2 at a time": the layers of a loop.
std::string KernelGroup::title(bool isOnly) const {
  if (!step)
    return isOnly ? "once" : "others";
  std::string text =
      "layers " + std::to_string(first) + " to " + std::to_string(last);
  return step > 1 ? text + ", " + std::to_string(step) + " at a time" : text;
}

/// Prints the kernels of one entry, grouped by loop.
static void printKernels(func::FuncOp entry, ArrayRef<KernelCost> costs,
                         llvm::raw_ostream &os) {
  llvm::MapVector<Operation *, KernelGroup> groups;
  size_t width = 0;
  entry.walk([&](llama::KernelOp kernel) {
    StringRef name = kernel.getKernelName();
    auto *cost = llvm::find_if(costs, [&](const KernelCost &cost) {
      return cost.entry == entry.getName() && cost.kernel == name;
    });
    groups[kernel->getParentOp()].add(kernel, *cost);
    width = std::max(width, name.size());
  });
  os << "@" << entry.getName() << "\n";
  for (const auto &[parent, group] : groups) {
    os << "  " << group.title(groups.size() == 1) << ": " << group.rows.size()
       << (group.rows.size() == 1 ? " kernel\n" : " kernels\n");
    for (const KernelRow &row : group.rows)
      os << "    " << llvm::left_justify(row.name, width + 2) << row.ops
         << "\n";
  }
}

void Remarks::describeKernels(ModuleOp program) {
  std::vector<KernelCost> costs = kernelCostsOf(program);
  llvm::raw_string_ostream stream(kernels);
  for (auto entry : program.getOps<func::FuncOp>())
    printKernels(entry, costs, stream);
}

//===----------------------------------------------------------------------===//
// The summary and the file
//===----------------------------------------------------------------------===//

/// "llama.linear of model.layers.*.mlp.down_proj: its result has further uses",
/// or, if the op has no name, "llama.linear at a.mlir:7".
static std::string lineOf(const LlvmRemark &remark) {
  auto valueOf = [&](StringRef key) -> StringRef {
    for (const llvm::remarks::Argument &arg : remark.Args)
      if (arg.Key == key)
        return arg.Val;
    return "";
  };
  std::string line = valueOf("Op").str();
  if (line.empty())
    line = remark.FunctionName.str();
  if (StringRef name = valueOf(kModule); !name.empty())
    line += " of " + name.str();
  else if (remark.Loc)
    line += " at " + remark.Loc->SourceFilePath.str() + ":" +
            std::to_string(remark.Loc->SourceLine);
  return line + ": " + valueOf("Reason").str();
}

/// Prints how many remarks of each name a pass emitted, in all functions.
/// LLVM's pass statistics would do, but count nothing where LLVM is built
/// without assertions.
static void printCounts(ArrayRef<LlvmRemark> remarks, llvm::raw_ostream &os) {
  std::map<StringRef, std::map<StringRef, unsigned>> counts;
  size_t width = 0;
  for (const LlvmRemark &remark : remarks) {
    ++counts[remark.PassName][remark.RemarkName];
    width = std::max(width, remark.PassName.size());
  }
  os << "remarks of each pass\n";
  for (const auto &[pass, names] : counts) {
    os << "  " << llvm::left_justify(pass, width + 2);
    llvm::interleaveComma(names, os, [&](const auto &entry) {
      os << entry.first << " " << entry.second;
    });
    os << "\n";
  }
}

void Remarks::printSummary(llvm::raw_ostream &os) const {
  // From the line that is printed to the functions that have this remark.
  std::map<std::string, std::set<StringRef>> left, slow;
  for (const LlvmRemark *remark : sorted()) {
    if (remark->RemarkType != llvm::remarks::Type::Missed)
      continue;
    bool isFusion = remark->PassName.starts_with("llama-");
    (isFusion ? left : slow)[lineOf(*remark)].insert(remark->FunctionName);
  }
  auto print = [&](StringRef title, const auto &lines) {
    if (!lines.empty())
      os << title << "\n";
    for (const auto &[line, functions] : lines) {
      os << "  " << line << " (";
      llvm::interleaveComma(functions, os,
                            [&](StringRef name) { os << "@" << name; });
      os << ")\n";
    }
  };
  os << kernels;
  print("left out of a kernel", left);
  print("without a fast schedule", slow);
  if (left.empty() && slow.empty())
    os << "nothing was left out of a kernel, or has no fast schedule\n";
  printCounts(all, os);
}

llvm::Error Remarks::write(StringRef path) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto serializer = llvm::remarks::createRemarkSerializer(
      llvm::remarks::Format::YAML, stream);
  if (!serializer)
    return serializer.takeError();
  for (const LlvmRemark *remark : sorted())
    (*serializer)->emit(*remark);
  return writeFile(path, text);
}
