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

/// Device memory as a tensor of up to five dimensions, the fastest first, from
/// which TMA copies boxes: its sizes, the strides of all dimensions except the
/// first in elements, and the sizes of a box.
struct TensorMap {
  llvm::SmallVector<int64_t> sizes, strides, box;
};

/// On a parameter of a kernel: its tensor map, as in the plan. Once parameters
/// are pointers, on the kernel: the numbers of the parameters that have one.
inline constexpr const char *kTensorMapAttribute = "cria.tensor_map";
/// On a kernel that is not for all chips: the generations that it is for, in
/// order, as in Chips.h.
inline constexpr const char *kGenerationsAttribute = "cria.generations";
/// The first and the last of the generations that `kernel` is for; nothing if
/// its attribute does not say so.
std::optional<std::pair<int64_t, int64_t>>
generationsOf(mlir::Operation *kernel);

/// ReadOnly never changes while the kernel runs: may be read by the texture
/// path.
enum class Access { Mutable, ReadOnly };

/// The threads for which an access is atomic.
enum class Scope { Block, Device };

class KernelBuilder : public LoopBuilder {
public:
  /// Begins the kernel `name` in `module`. A block has `threads` threads.
  KernelBuilder(mlir::Location loc, mlir::Block &module, llvm::StringRef name,
                int64_t threads);
  mlir::gpu::GPUFuncOp function;
  /// Ends the kernel; nothing is built after it.
  void finish();

  /// Adds a parameter, device memory. Returns it as a memref of one dimension,
  /// which also has what lies between its elements. Memory that is only loaded,
  /// and only with Access::ReadOnly, is marked llvm.noalias and llvm.readonly.
  mlir::Value addParam(mlir::MemRefType type);
  /// Adds a parameter that is a number: an index.
  mlir::Value addNumber();
  /// Makes a parameter, as addParam returned it, a tensor map. It is used for
  /// nothing else. Returns the kernel's argument.
  mlir::Value setTensorMap(mlir::Value param, const TensorMap &map);
  int64_t threads() const { return blockThreads; }

  // The place in the grid.
  mlir::Value block(unsigned dim);
  mlir::Value blocks(unsigned dim);
  mlir::Value thread();
  mlir::Value lane();
  mlir::Value warp();

  // Integers; folds constants.
  mlir::Value i32(int64_t value);
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
  /// Combines a vector's lanes; a scalar is returned as it is.
  mlir::Value reduce(mlir::Value vector, Combine combine);
  mlir::Value sum(mlir::Value vector);
  mlir::Value extract(mlir::Value vector, int64_t lane);
  mlir::Value zero(mlir::Type type);
  /// The bits of x as another type of the same size.
  mlir::Value bitcast(mlir::Type type, mlir::Value x);
  /// A vector of 32 bits as i32.
  mlir::Value bits(mlir::Value vector);
  /// A vector of scalars; a single one stays a scalar.
  mlir::Value pack(mlir::ValueRange scalars);

  // Memory.
  /// Element (row, column) of `rows`.
  Address address(const Rows &rows, mlir::Value row, mlir::Value column);
  /// The address `rows` rows and `columns` columns after `address`: a constant
  /// that needs no register.
  Address further(Address address, const Rows &of, int64_t rows,
                  int64_t columns);
  /// The address `elements`, an i32, elements after `address`.
  Address further(Address address, mlir::Value elements);
  /// The same integer of 32 or 64 bits, or address, but opaque for LLVM. LLVM
  /// does not move computations that use it, so they need no registers
  /// elsewhere.
  mlir::Value opaque(mlir::Value x);
  Address opaque(Address address);
  /// `lanes` elements from (row, column) on, in the type in memory; aligned to
  /// all of them. A single element is a scalar.
  mlir::Value load(const Rows &rows, mlir::Value row, mlir::Value column,
                   int64_t lanes = 1, Access access = Access::Mutable);
  /// A value of `type` from an address, aligned to all of it.
  mlir::Value loadFrom(Address address, mlir::Type type);
  /// The field of `type` at byte `offset`, an i32, of a parameter whose bytes
  /// never change.
  mlir::Value loadField(mlir::Value bytes, mlir::Value offset, mlir::Type type);
  /// `load` with the result in f32.
  mlir::Value loadWide(const Rows &rows, mlir::Value row, mlir::Value column,
                       int64_t lanes = 1, Access access = Access::Mutable);
  /// Stores an f32 in the rows' element type.
  void store(mlir::Value x, const Rows &rows, mlir::Value row,
             mlir::Value column);
  /// Stores a value that has the memory's element type, aligned to all of it.
  void storeTo(mlir::Value x, Address to);
  /// A shared array of the kernel, `count` elements, 16-byte aligned.
  Rows shared(mlir::Type element, int64_t count, int64_t stride);
  /// An array of `count` elements in the shared memory whose size the launch
  /// gives, aligned to 1024 bytes. A kernel has at most one.
  Rows launchedShared(mlir::Type element, int64_t count, int64_t stride);

  // Control flow.
  /// The result of `then`, or `otherwise`.
  mlir::Value choose(mlir::Value condition,
                     llvm::function_ref<mlir::Value()> then,
                     mlir::Value otherwise);
  mlir::ValueRange
  choose(mlir::Value condition,
         llvm::function_ref<llvm::SmallVector<mlir::Value>()> then,
         llvm::function_ref<llvm::SmallVector<mlir::Value>()> otherwise);

  // Cooperation.
  void barrier();
  /// Adds to element `index` of integer rows. Returns the value before. With
  /// the scope Device, threads of other blocks may add to it, too.
  mlir::Value atomicAdd(const Rows &rows, mlir::Value index, mlir::Value value,
                        Scope scope = Scope::Block);
  /// Runs `body` in the last of `count` blocks that comes here; it sees what
  /// the others have written before. Arrivals are counted in element `index` of
  /// i32 rows, which is 0 before and after.
  void whenLast(const Rows &arrivals, mlir::Value index, mlir::Value count,
                llvm::function_ref<void()> body);
  /// Whether this block is the last one. `flag` is shared memory for a number,
  /// which nothing else needs any more. `barrier` waits for all threads that
  /// ask.
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
  /// is shared memory for one value of each warp, which no thread reads any
  /// more.
  mlir::Value blockReduce(mlir::Value x, const Rows &scratch, Combine combine);

private:
  /// Like `address`, but the caller says how it accesses the element.
  Address at(const Rows &rows, mlir::Value row, mlir::Value column);
  mlir::Value shuffle(mlir::Value x, mlir::gpu::ShuffleMode mode,
                      mlir::Value operand);
  mlir::Value pointer(Address address);
  void markReadOnly();
  /// Makes other blocks see this thread's earlier writes before its later ones
  /// (membar.gl).
  void fence();
  /// Counts element `index` of i32 rows up, from `last` to 0. Returns the count
  /// before.
  mlir::Value atomicIncrement(const Rows &rows, mlir::Value index,
                              mlir::Value last);
  mlir::Value addArgument(mlir::Type type);
  mlir::Value allElements(mlir::Value memref);

  int64_t blockThreads;
  /// How each parameter, as addParam returned it, has been accessed.
  llvm::DenseMap<mlir::Value, Access> accesses;
  llvm::SmallVector<mlir::Value> params;
};

} // namespace cria::simt
