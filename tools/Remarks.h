/// What --remarks says of a compilation: a summary, and a file.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Remarks/Remark.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/Mutex.h"
#include "llvm/Support/StringSaver.h"
#include "llvm/Support/raw_ostream.h"

namespace cria {

/// Collects the remarks of a context's passes. It must outlive the context.
class Remarks {
public:
  /// Collects remarks from now on. If `prints` is set, each is also a
  /// diagnostic.
  void collect(mlir::MLIRContext &context, bool prints);

  /// Describes the kernels of a program at Fuse, for the summary.
  void describeKernels(mlir::ModuleOp program);

  /// Prints the kernels of each entry, grouped by loop. Then prints which ops
  /// were left out of kernels, which have no fast schedule, and why; and how
  /// often each pass did what it remarks.
  void printSummary(llvm::raw_ostream &os) const;

  /// Writes the remarks in LLVM's YAML format, which tools such as
  /// llvm-remarkutil read.
  llvm::Error write(llvm::StringRef path) const;

private:
  class Streamer;

  /// The remarks, sorted by the function's name. The remarks of one function
  /// stay in the order of the passes. Without sorting, the order would depend
  /// on threads, because passes run on several functions at once.
  llvm::SmallVector<const llvm::remarks::Remark *> sorted() const;

  llvm::sys::Mutex mutex; // guards the members below
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver{allocator};
  std::vector<llvm::remarks::Remark> all;
  std::string kernels;
};

} // namespace cria
