/// Builds the body of one kernel: a gpu.func in a gpu.module, with scf loops,
/// arith on scalars and vectors, and explicit loads and stores of memrefs. Row
/// and column numbers are i32, element offsets `index`; thread blocks are
/// one-dimensional.
#pragma once

#include "lowering/kernel/LoopBuilder.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/DenseMap.h"

namespace cria::simt {

/// Threads of a warp.
inline constexpr int64_t kWarp = 32;

/// Device or shared memory seen as rows of one element type.
struct Rows {
  /// A memref of one dimension.
  mlir::Value base;
  mlir::Type element;
  /// Elements from one row to the next.
  int64_t stride = 0;
};

/// An element of a memref of one dimension.
struct Address {
  mlir::Value base, index;
};

/// Device memory as TMA, which copies boxes, sees it: a tensor of up to five
/// dimensions, the fastest first. Its sizes, the strides of all dimensions but
/// the first in elements, and the sizes of a box.
struct TensorMap {
  llvm::SmallVector<int64_t> sizes, strides, box;
};

/// On a parameter of a kernel: its tensor map, as the plan has it. When
/// parameters are pointers, on the kernel: the numbers of those that have one.
inline constexpr const char *kTensorMapAttribute = "cria.tensor_map";
/// On a kernel: whether it is for chips that have wgmma, or for others.
inline constexpr const char *kWgmmaAttribute = "cria.wgmma";

/// Never changes while the kernel runs: may be read through the texture path.
enum class Access { Mutable, ReadOnly };

/// Who sees that an atomic access is one.
enum class Scope { Block, Device };

class KernelBuilder : public LoopBuilder {
public:
  /// Begins the kernel `name` in `module`. A block has `threads` threads.
  KernelBuilder(mlir::Location loc, mlir::Block &module, llvm::StringRef name,
                int64_t threads);
  mlir::gpu::GPUFuncOp function;
  /// Ends the kernel; nothing is built after it.
  void finish();

  /// A further parameter, contiguous device memory; returns it as a memref of
  /// one dimension. What is loaded with Access::ReadOnly and never accessed
  /// otherwise is marked llvm.noalias and llvm.readonly.
  mlir::Value addParam(mlir::MemRefType type);
  /// A further parameter, a number: an index.
  mlir::Value addNumber();
  /// Makes a parameter, as addParam gave it, one whose boxes are copied: it is
  /// used for nothing else. Returns the kernel's argument.
  mlir::Value setTensorMap(mlir::Value param, const TensorMap &map);
  int64_t threads() const { return blockThreads; }

  // Where in the grid.
  mlir::Value block(unsigned dim);
  mlir::Value blocks(unsigned dim);
  mlir::Value thread();
  mlir::Value lane();
  mlir::Value warp();

  // Integers; folds constants.
  mlir::Value i32(int64_t value);
  mlir::Value equal(mlir::Value a, mlir::Value b);
  mlir::Value exclusiveOr(mlir::Value a, mlir::Value b);
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);

  // f32 arithmetic on scalars and vectors.
  mlir::Value f32(double value);
  /// `value` in every lane of a vector of `lanes`.
  mlir::Value splat(mlir::Value value, int64_t lanes);
  mlir::Value fadd(mlir::Value a, mlir::Value b);
  mlir::Value fsub(mlir::Value a, mlir::Value b);
  mlir::Value fmul(mlir::Value a, mlir::Value b);
  mlir::Value fdiv(mlir::Value a, mlir::Value b);
  mlir::Value fmax(mlir::Value a, mlir::Value b);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  /// 2^x, approximate (ex2.approx, relative error 2^-22).
  mlir::Value exp2(mlir::Value x);
  /// To f32 and back; rounds to nearest even.
  mlir::Value widen(mlir::Value x);
  mlir::Value narrow(mlir::Value x, mlir::Type element);
  using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;
  /// Combines a vector's lanes; a scalar is its own.
  mlir::Value reduce(mlir::Value vector, Combine combine);
  mlir::Value sum(mlir::Value vector);
  mlir::Value extract(mlir::Value vector, int64_t lane);
  mlir::Value zero(mlir::Type type);
  /// The bits of x as another type of as many.
  mlir::Value bitcast(mlir::Type type, mlir::Value x);
  /// A vector of 32 bits as i32.
  mlir::Value bits(mlir::Value vector);
  /// A vector of scalars; a single one stays a scalar.
  mlir::Value pack(mlir::ValueRange scalars);

  // Memory.
  /// Element (row, column) of `rows`.
  Address address(const Rows &rows, mlir::Value row, mlir::Value column);
  /// The address `rows` rows and `columns` columns further on: a constant that
  /// needs no register.
  Address further(Address address, const Rows &of, int64_t rows,
                  int64_t columns);
  /// The address an i32 of elements further on.
  Address further(Address address, mlir::Value elements);
  /// The same integer of 32 or 64 bits, or address, of which LLVM knows
  /// nothing: LLVM does not move computations with it, so that they need no
  /// registers elsewhere.
  mlir::Value opaque(mlir::Value x);
  Address opaque(Address address);
  /// `lanes` elements from there, as stored; aligned to all of them. A single
  /// one is a scalar.
  mlir::Value load(const Rows &rows, mlir::Value row, mlir::Value column,
                   int64_t lanes = 1, Access access = Access::Mutable);
  /// A value of `type` from an address, aligned to all of it.
  mlir::Value loadFrom(Address address, mlir::Type type);
  /// The field of `type` at a byte of a parameter of bytes that never change.
  mlir::Value loadField(mlir::Value bytes, int64_t offset, mlir::Type type);
  /// The same in f32.
  mlir::Value loadWide(const Rows &rows, mlir::Value row, mlir::Value column,
                       int64_t lanes = 1, Access access = Access::Mutable);
  /// Stores f32 in the rows' element type.
  void store(mlir::Value x, const Rows &rows, mlir::Value row,
             mlir::Value column);
  /// Stores what has the element type, aligned to all of it.
  void storeTo(mlir::Value x, Address to);
  /// A shared array of the kernel, `count` elements, 16-byte aligned.
  Rows shared(mlir::Type element, int64_t count, int64_t stride);
  /// An array of `count` elements in the shared memory whose size the launch
  /// says, aligned to 1024 bytes: kernels have one at most.
  Rows launchedShared(mlir::Type element, int64_t count, int64_t stride);

  // Control flow.
  /// What `then` gives, or `otherwise`.
  mlir::Value choose(mlir::Value condition,
                     llvm::function_ref<mlir::Value()> then,
                     mlir::Value otherwise);
  mlir::ValueRange
  choose(mlir::Value condition,
         llvm::function_ref<llvm::SmallVector<mlir::Value>()> then,
         llvm::function_ref<llvm::SmallVector<mlir::Value>()> otherwise);

  // Cooperation.
  void barrier();
  /// Adds to element `index` of integer rows; the value before. Threads of
  /// other blocks may add to it too where the scope is the device.
  mlir::Value atomicAdd(const Rows &rows, mlir::Value index, mlir::Value value,
                        Scope scope = Scope::Block);
  /// In that of `count` blocks that comes here last, which sees what the others
  /// have written before. They count in element `index` of i32 rows, which is 0
  /// before and after.
  void whenLast(const Rows &arrivals, mlir::Value index, mlir::Value count,
                llvm::function_ref<void()> body);
  /// Whether this block is that one. `flag` is shared memory for a number,
  /// which nothing else needs any more; `barrier` one of all threads that ask.
  mlir::Value arrivesLast(const Rows &arrivals, mlir::Value index,
                          mlir::Value count, const Rows &flag,
                          llvm::function_ref<void()> barrier);
  /// The value, of 32 or 64 bits, of the lane whose number differs in the bits
  /// of `mask`, or of lane `lane`.
  mlir::Value shuffleXor(mlir::Value x, int64_t mask);
  mlir::Value shuffleFrom(mlir::Value x, mlir::Value lane);
  /// Combines a value over groups of `width` neighbouring lanes, a power of
  /// two; every lane gets the result.
  mlir::Value warpReduce(mlir::Value x, int64_t width, Combine combine);
  mlir::Value warpSum(mlir::Value x, int64_t width = kWarp);
  mlir::Value warpMax(mlir::Value x, int64_t width = kWarp);
  /// The sum of the integers of this lane and those before it.
  mlir::Value warpScan(mlir::Value x);
  /// Combines a value over the block; every thread gets the result. `scratch`
  /// is shared memory for one value a warp, which no thread reads any more.
  mlir::Value blockReduce(mlir::Value x, const Rows &scratch, Combine combine);

private:
  /// As `address`, but the caller says how it accesses the element.
  Address at(const Rows &rows, mlir::Value row, mlir::Value column);
  mlir::Value shuffle(mlir::Value x, mlir::gpu::ShuffleMode mode,
                      mlir::Value operand);
  mlir::Value pointer(Address address);
  void markReadOnly();
  /// What this thread has written is seen by other blocks before what it writes
  /// later (membar.gl).
  void fence();
  /// Counts element `index` of i32 rows up, from `last` to 0; the count before.
  mlir::Value atomicIncrement(const Rows &rows, mlir::Value index,
                              mlir::Value last);
  mlir::Value addArgument(mlir::Type type);

  int64_t blockThreads;
  /// How a parameter, as addParam gave it, has been accessed.
  llvm::DenseMap<mlir::Value, Access> accesses;
  llvm::SmallVector<mlir::Value> params;
};

} // namespace cria::simt
