/// One kernel launch: a kernel being built, and what the host plan says of it.
///
/// The host plan is data: an array of steps that the runtime walks. Its form is
/// described in docs/artifact.md; here it is attributes, which the manifest
/// takes over as JSON.
#pragma once

#include "lowering/gpu/KernelBuilder.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/DenseMap.h"

namespace cria::cuda {

/// Numbers of rows that a call decides: its tokens, or those of them whose
/// logits are wanted, which are the last ones.
enum class Extent { Tokens, Logits };

/// Where a tensor lies in device memory, for the host and for a kernel.
struct Place {
  /// A step's argument, such as {weight = 5, layered} or {arena = 1024}. Null
  /// for a value that is computed inside a kernel and never stored.
  mlir::DictionaryAttr arg;
  /// The number of rows of a tensor whose first dimension is dynamic.
  Extent rows = Extent::Tokens;
  /// The tensor begins at the row of the first token whose logits are wanted.
  bool fromFirstLogit = false;
  /// What it is stored as, where that is not the tensor's own element type.
  mlir::Type element = {};

  bool operator==(const Place &other) const {
    return arg == other.arg && rows == other.rows &&
           fromFirstLogit == other.fromFirstLogit && element == other.element;
  }
};

/// Says where tensors lie: the planner of an entry function does.
class Places {
public:
  virtual ~Places() = default;
  /// The place of a tensor from outside a kernel, or that a kernel yields.
  virtual Place placeOf(mlir::Value tensor) = 0;
  /// The number of rows of a tensor whose first dimension is dynamic, also of
  /// one that is computed inside a kernel.
  virtual Extent rowsOf(mlir::Value tensor) = 0;
  /// One layer of a KV cache.
  virtual Place cachePlace(mlir::Value cache, mlir::Value layer) = 0;
  /// A buffer of the runtime, by its name in a step's arguments: "logits",
  /// "seen".
  virtual Place named(llvm::StringRef kind) = 0;
  /// New memory of the entry.
  virtual Place temporary(int64_t bytes) = 0;
  /// New memory of the entry that is zero when a session begins.
  virtual Place zeroed(int64_t bytes) = 0;
};

/// A dimension of a grid: blocks, or rows a block.
struct Dim {
  int64_t size = 1;
  std::optional<Extent> of;
};

class Launch {
public:
  Launch(mlir::Location loc, mlir::Block &module, llvm::StringRef name,
         int64_t threads, Places &places)
      : b(loc, module, name, threads), name(name), places(places) {}

  KernelBuilder b;

  /// The rows of a tensor whose last dimensions, from `rank` 1 on, are one.
  Rows rows(mlir::Value tensor);
  Rows rows(Place place, mlir::Type element, int64_t stride);
  /// A layer's slice of a KV cache: rows are (head, position).
  Rows cache(mlir::Value cache, mlir::Value layer);

  /// The position of the call's first token, and the number of its tokens.
  mlir::Value position();
  mlir::Value tokens();
  /// The number of tokens of the text that was encoded.
  mlir::Value source();
  /// The field of CriaStepState at a byte offset.
  mlir::Value field(int64_t offset, mlir::Type type);
  /// The number of rows of a tensor: a constant, or what the call decides.
  mlir::Value extent(mlir::Value tensor);
  /// That number as a dimension of a grid, with `perBlock` rows a block.
  Dim gridOf(mlir::Value tensor, int64_t perBlock);

  /// Ends the kernel. Returns the host's step.
  mlir::DictionaryAttr finish(llvm::ArrayRef<Dim> grid);

private:
  /// The parameter for an argument of the step, flat. Elements of one argument
  /// are of one type; else they are two parameters.
  mlir::Value base(mlir::DictionaryAttr arg, mlir::MemRefType type);
  Rows rows(Place place, mlir::MemRefType type, int64_t stride);
  mlir::Value firstLogit();

  std::string name;
  Places &places;
  llvm::MapVector<std::pair<mlir::Attribute, mlir::Type>, mlir::Value> params;
};

/// Elements of a tensor's row: the product of all dimensions but the first.
int64_t rowSize(mlir::Value tensor);
/// Elements of a 16-byte access, or fewer, so that rows of `columns` elements
/// are made of whole accesses.
int64_t accessWidth(mlir::Type element, int64_t columns);

} // namespace cria::cuda
