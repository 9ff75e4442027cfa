/// A matrix that each token updates (Recurrence.h), in a prompt by chunks of 16
/// tokens, whose sums are products of matrices on tensor cores (mma.sync).
///
/// With the matrix S before a chunk, row i of each of these for its token i,
/// and the decays' products begun[i] of all tokens before i and since[i, j] of
/// tokens j + 1 to i - 1 (Recurrence::Step has the formulas of one token):
///
///   wanted[i] = added[i] + corrected[i] begun[i] S^T x[i]
///   u[i] = wanted[i] + corrected[i] sum_{j < i} since[i, j] (y[j] x[i]) u[j]
///   o[i] = own[i] + read[i] (begun[i] S^T q[i]
///          + sum_{j < i} since[i, j] (y[j] q[i]) u[j]) + mixed[i] u[i]
///
/// So u = T wanted, where T is the inverse of a triangular matrix, and o has
/// a triangular matrix P as factor of u. Neither depends on S: a first kernel
/// computes both for all chunks at the same time. T is solved row by row in
/// f32. The second kernel goes from chunk to chunk; S stays in registers.
///
/// A warp has S^T for 16 columns and half of the rows. What the products of S^T
/// leave in the sums of a lane is what the lane must supply as left operand of
/// the next product, as in attention: S^T for x and q, wanted^T for T, u^T for
/// P and for the update. The two halves of S^T x add up by shared memory. The
/// other warps bring the rows of the next chunk meanwhile.
///
/// Numbers are f32, and tensor cores multiply bf16: a number is the sum of two
/// of bf16, with 16 bits, and of the four products of two numbers the least is
/// left out. The decays' products are at most 1 where decays are.
#include "lowering/gpu/cuda/Layouts.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/Warpgroups.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"
#include "lowering/gpu/schedules/Preconditions.h"
#include "lowering/gpu/schedules/Tuning.h"

#include "dialect/Attributes.h"
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Tokens of a chunk, as many as an instruction multiplies terms, and of a
/// product.
static constexpr int64_t kChunk = 16, kProduct = 8;
/// Sums of a lane for all tokens of a chunk.
static constexpr int64_t kSumsOfChunk = kChunk / kProduct * 4;
/// Columns of a warp; parts of the matrix's rows. A warp has one part, and
/// makes the results of a product's tokens.
static constexpr int64_t kColumns = 16, kParts = kChunk / kProduct;
/// Elements between rows, which spread the eight rows of an ldmatrix over all
/// banks, and numbers between rows, which spread a lane's sums.
static constexpr int64_t kPad = 8, kSumPad = 4;
/// Warps of the first kernel.
static constexpr int64_t kFirstWarps = 4;
/// Numbers of each token that the first kernel computes: the factor of S^T q;
/// the decays' products of the tokens after it, and of those up to it; the
/// factor of S^T x.
enum Number : int64_t { Read, After, UpTo, Corrected, kNumbers };
/// Formulas of a token that the first kernel keeps in shared memory.
enum Coef : int64_t { DecayOf, CorrectedOf, ReadOf, MixedOf, kCoefs };

namespace {
using Step = Recurrence::Step;
using Input = Recurrence::Input;
using Inputs = SmallVector<const Input *>;

/// The rows of an input in one of the two parts that its numbers are split to.
struct Tile {
  const Input *input;
  bool low;
  int64_t heads;    ///< neighbouring heads that have the same rows
  int64_t firstRow; ///< in device memory
};

/// What the first kernel leaves for the second, in device memory.
struct ChunkMemory {
  ChunkMemory(Recurrence &in, const Step &step, int64_t tokens);
  void allocate(KernelFunction &of);

  int64_t heads, chunks; ///< of a head, at most
  int64_t matrices;      ///< of a chunk: P, and T if there is one
  int64_t length;        ///< of a row
  SmallVector<Tile> tiles;
  Value fragments = {}; ///< of matrices, both parts of each, as right operands
  Value numbers = {};   ///< (heads, chunks, kNumbers, kChunk)
  Value rows = {};      ///< of each tile (heads / Tile::heads, tokens, length)

  Rows fragmentsIn(Launch &launch) const {
    return launch.rows(fragments, 4 * kWarp);
  }
  Rows numbersIn(Launch &launch) const { return launch.rows(numbers, kChunk); }
  Rows rowsIn(Launch &launch) const { return launch.rows(rows, length); }
  /// The row of a token in `rows`.
  Value rowOf(KernelBuilder &b, const Tile &tile, Value head,
              Value token) const {
    return b.add(b.add(b.mul(b.div(head, tile.heads), chunks * kChunk), token),
                 tile.firstRow);
  }
};

/// Numbers as sums of two of bf16: pairs, as i32.
struct Split {
  SmallVector<Value> high, low; ///< `low` is empty if all are zero
};

/// What both kernels share: rows and numbers of some tokens in shared memory.
class Chunk {
protected:
  Chunk(Recurrence &in, const Step &step, const ChunkMemory &memory,
        const Twine &suffix, int64_t threads, int64_t buffers,
        ArrayRef<FormulaRef> formulas);

  /// Numbers, two of a pair side by side.
  Split split(ArrayRef<Value> numbers);
  /// The rows of an input, from `column` columns after `start` on, as right
  /// operand.
  Split load(Address start, const Input *input, int64_t column,
             bool transposed = false);
  /// sums += x w.
  void multiply(const Split &x, const Split &w, MutableArrayRef<Value> sums);
  /// The first row of a tile in a buffer.
  Value firstRow(Value buffer, size_t tile) {
    int64_t rows = static_cast<int64_t>(memory.tiles.size()) * kChunk;
    return b.add(b.mul(buffer, rows), static_cast<int64_t>(tile) * kChunk);
  }
  /// The lane's address in the tiles of a buffer, for load.
  Address startOf(const Layout &layout, Value buffer, Value column);
  /// The row of `numbers` or `columns` that one of an input's tokens has.
  Value placeOf(Value buffer, size_t inputs, size_t input, Value slot);
  /// A number of a token, or of its column, as f32.
  Value numberAt(const Element &element, Value buffer, Value slot,
                 Value column = {});

  Recurrence &in;
  const Step &step;
  const ChunkMemory &memory;
  Launch launch;
  KernelBuilder &b;
  Value head, count;
  Rows tiles, rows; // in shared memory, and in device memory
  Inputs ofNumbers, ofColumns;
  Rows numbers, columns;
};

/// The first kernel. Blocks (i, j): i is the head, j is the chunk.
class Factors : Chunk {
public:
  Factors(Recurrence &in, const Step &step, const ChunkMemory &memory)
      : Chunk(in, step, memory, "_chunks", kFirstWarps * kWarp, /*buffers=*/1,
              {step.decay, step.corrected, step.read, step.mixed}) {}
  /// Whether lanes can read rows. If not, the kernel is gone.
  bool readsRows() {
    if (in.hasWideRows(launch))
      return true;
    launch.erase();
    return false;
  }
  void emit();

private:
  void bring(Value token, Value slot);
  void products(const Input *x, int64_t row);
  void coefficients(Value slot, Value exists);
  void matrices(Value token, Value exists, Value row);
  void solve(Value token);
  void storeFragments(Value row);

  Rows sums, coefs, factors, result;
};

/// The second kernel. Blocks (i, j): i is the head, j is columns.
class Scan : Chunk {
public:
  Scan(Recurrence &in, const Step &step, const ChunkMemory &memory,
       const RecurrenceChunkSizes &sizes);
  void emit();

private:
  int64_t owners() const { return blockColumns / kColumns * kParts; }
  SmallVector<Value> loops(Value token, Value column, Value row) {
    return {token, head, band, b.add(firstColumn, column), row};
  }
  void copyRows(Value chunk, Value buffer);
  void bring(Value chunk, Value buffer);
  void forMatrix(llvm::function_ref<void(size_t number, ValueRange at)> body);
  SmallVector<Value> summed(ArrayRef<Value> ofX, ArrayRef<Value> ofQ);
  /// What the first kernel has computed of a chunk. `corrected` and `after`
  /// have a number for each of the lane's sums, `read` for each of its two
  /// tokens.
  struct Computed {
    Split p, t;
    SmallVector<Value> corrected, after;
    Value read, whole;
  };
  Computed load(Value chunk);
  SmallVector<Value> productsOf(ArrayRef<Value> matrix, Value buffer);
  Value formulaAt(const FormulaRef &formula, Value buffer, Value slot,
                  Place place);
  SmallVector<Value> updates(const Computed &of, ArrayRef<Value> sums,
                             Value buffer);
  void storeRows(const Computed &of, ArrayRef<Value> sums, ArrayRef<Value> u,
                 Value chunk, Value buffer);
  SmallVector<Value> consume(Value chunk, Value buffer, ValueRange matrix);

  int64_t blockColumns, warps; // warps that bring chunks
  int64_t partRows;
  Value band, firstColumn, part;
  Value column; ///< of the lane's first sum
  Rows fragments, numbersOfChunks, exchange;
};
} // namespace

//===----------------------------------------------------------------------===//
// Rows of a chunk
//===----------------------------------------------------------------------===//

/// Whether an element is a number of bf16.
static bool isOfBf16(Elements &elements, const Element &element,
                     ArrayRef<Size> box) {
  auto made = elements.define(element, box);
  if (made.kind == Elements::Definition::Same)
    return isOfBf16(elements, made.same, box);
  if (made.kind != Elements::Definition::Payload)
    return getElementTypeOrSelf(element.tensor).isBF16();
  auto wide = yielded(made.op, made.result).getDefiningOp<arith::ExtFOp>();
  return wide && wide.getIn().getType().isBF16();
}

/// The inputs that formulas read, of columns or of none.
static Inputs inputsOf(const Recurrence &in, ArrayRef<FormulaRef> formulas,
                       bool ofColumn) {
  Inputs inputs;
  for (const FormulaRef &formula : formulas)
    reads(formula, [&](const Element &element) {
      const Input *input = in.find(element);
      if (input->ofColumn == ofColumn && !llvm::is_contained(inputs, input))
        inputs.push_back(input);
      return false;
    });
  return inputs;
}

/// How many neighbouring heads have the same element.
static int64_t headsOf(const Element &element, const Recurrence &in) {
  int64_t all = in.box[Recurrence::Head].constant, heads = 0;
  AffineExpr head = in.elements.dim(Recurrence::Head);
  for (AffineExpr at : element.at) {
    AffineExpr other = at;
    at.walk([&](AffineExpr expr) {
      auto quotient = dyn_cast<AffineBinaryOpExpr>(expr);
      if (!quotient || quotient.getKind() != AffineExprKind::FloorDiv ||
          quotient.getLHS() != head)
        return;
      if (auto by = dyn_cast<AffineConstantExpr>(quotient.getRHS())) {
        heads = std::gcd(heads, by.getValue());
        other = other.replace(expr, in.elements.constant(0));
      }
    });
    if (other.isFunctionOfDim(Recurrence::Head))
      return 1;
  }
  return heads ? heads : all;
}

ChunkMemory::ChunkMemory(Recurrence &in, const Step &step, int64_t tokens)
    : heads(in.box[Recurrence::Head].constant),
      chunks(static_cast<int64_t>(llvm::divideCeil(tokens, kChunk))),
      matrices(step.x ? 2 : 1), length(in.rows) {
  int64_t rows = 0;
  for (const Input *input : {step.x, step.q, step.y}) {
    bool isThere = llvm::any_of(
        tiles, [&](const Tile &tile) { return tile.input == input; });
    if (!input || isThere)
      continue;
    int64_t same = headsOf(input->element, in),
            parts = isOfBf16(in.elements, input->element, in.box) ? 1 : 2;
    for (int64_t part = 0; part < parts; ++part) {
      tiles.push_back({input, part == 1, same, rows});
      rows += llvm::divideCeil(heads, same) * chunks * kChunk;
    }
  }
}

void ChunkMemory::allocate(KernelFunction &of) {
  Builder &host = of.host;
  int64_t all = heads * chunks, each = chunks * kChunk * length;
  const Tile &last = tiles.back();
  fragments = of.allocate(host.getI32Type(), all * matrices * 2 * 4 * kWarp);
  numbers = of.allocate(host.getF32Type(), all * kNumbers * kChunk);
  rows = of.allocate(host.getBF16Type(),
                     last.firstRow * length +
                         llvm::divideCeil(heads, last.heads) * each);
}

Chunk::Chunk(Recurrence &in, const Step &step, const ChunkMemory &memory,
             const Twine &suffix, int64_t threads, int64_t buffers,
             ArrayRef<FormulaRef> formulas)
    : in(in), step(step), memory(memory), launch(in.of, suffix, threads),
      b(launch.b), head(b.block(0)),
      count(launch.number(in.box[Recurrence::Token])),
      ofNumbers(inputsOf(in, formulas, /*ofColumn=*/false)) {
  int64_t slots = buffers * kChunk, stride = in.rows + kPad,
          each = std::max<int64_t>(ofNumbers.size(), 1);
  tiles = b.shared(b.getBF16Type(),
                   slots * static_cast<int64_t>(memory.tiles.size()) * stride,
                   stride);
  numbers = b.shared(b.getF32Type(), slots * each, 1);
}

Split Chunk::split(ArrayRef<Value> numbers) {
  auto rounded = [&](Value x, Value y) {
    return b.bits(b.narrow(b.pack({x, y}), b.getBF16Type()));
  };
  Split result;
  for (size_t i = 0; i < numbers.size(); i += 2) {
    Value high = rounded(numbers[i], numbers[i + 1]);
    // By integers: extensions of bf16 would round each number on its own.
    Value first = b.create<arith::ShLIOp>(high, b.i32(16)),
          second = b.both(high, b.i32(-(1 << 16)));
    auto rest = [&](Value number, Value of) {
      return b.fsub(number, b.bitcast(b.getF32Type(), of));
    };
    result.high.push_back(high);
    result.low.push_back(
        rounded(rest(numbers[i], first), rest(numbers[i + 1], second)));
  }
  return result;
}

Address Chunk::startOf(const Layout &layout, Value buffer, Value column) {
  Value lane = b.lane();
  return b.opaque(b.address(tiles,
                            b.add(firstRow(buffer, 0), layout.row(b, lane)),
                            b.add(column, b.mul(layout.column(b, lane), 8))));
}

Split Chunk::load(Address start, const Input *input, int64_t column,
                  bool transposed) {
  Split result;
  for (auto [i, tile] : llvm::enumerate(memory.tiles))
    if (tile.input == input)
      (tile.low ? result.low : result.high) = cuda::loadMatrices(
          b, b.further(start, tiles, i * kChunk, column), transposed);
  return result;
}

void Chunk::multiply(const Split &x, const Split &w,
                     MutableArrayRef<Value> sums) {
  Type element = b.getBF16Type();
  if (!w.low.empty())
    cuda::mma(b, element, x.high, w.low, sums);
  if (!x.low.empty())
    cuda::mma(b, element, x.low, w.high, sums);
  cuda::mma(b, element, x.high, w.high, sums);
}

Value Chunk::placeOf(Value buffer, size_t inputs, size_t input, Value slot) {
  Value row = b.add(b.mul(buffer, static_cast<int64_t>(inputs)),
                    static_cast<int64_t>(input));
  return b.add(b.mul(row, kChunk), slot);
}

Value Chunk::numberAt(const Element &element, Value buffer, Value slot,
                      Value column) {
  const Input *input = in.find(element);
  const Inputs &all = input->ofColumn ? ofColumns : ofNumbers;
  size_t place = llvm::find(all, input) - all.begin();
  return b.load(input->ofColumn ? columns : numbers,
                placeOf(buffer, all.size(), place, slot),
                input->ofColumn ? column : b.i32(0));
}

//===----------------------------------------------------------------------===//
// Factors of chunks
//===----------------------------------------------------------------------===//

/// A warp brings a token's rows, to device memory as well, and numbers.
void Factors::bring(Value token, Value slot) {
  Value zero = b.i32(0), lane = b.lane(), at = b.mul(lane, in.rows / kWarp),
        last = b.sub(count, b.i32(1)), rest;
  SmallVector<Value> loops = {b.min(token, last), head, zero, zero, at};
  Inputs inputs;
  for (const Tile &tile : memory.tiles)
    inputs.push_back(tile.input);
  inputs.append(ofNumbers);
  SmallVector<Value> made = in.bring(launch, inputs, loops, in.rows / kWarp);
  for (auto [i, tile] : llvm::enumerate(memory.tiles)) {
    if (!tile.low)
      rest = made[i];
    Value part = b.narrow(rest, b.getBF16Type());
    rest = b.fsub(rest, b.widen(part));
    b.storeTo(part, b.address(tiles, b.add(firstRow(zero, i), slot), at));
    Value row = memory.rowOf(b, tile, head, token);
    b.when(b.equal(b.rem(head, tile.heads), zero),
           [&] { b.storeTo(part, b.address(rows, row, at)); });
  }
  b.when(b.equal(lane, zero), [&] {
    auto own = ArrayRef(made).take_back(ofNumbers.size());
    for (auto [i, value] : llvm::enumerate(own))
      b.store(value, numbers, placeOf(zero, ofNumbers.size(), i, slot), zero);
  });
}

/// The products of x's rows with y's, to `sums` from `row` on, by a warp.
void Factors::products(const Input *x, int64_t row) {
  Value zero = b.i32(0), lane = b.lane();
  Address left = startOf(cuda::kLoadX, zero, zero),
          right = startOf(cuda::kLoadW, zero, zero);
  // Sums of their own for each product of parts: shorter chains.
  SmallVector<SmallVector<Value>> all(
      3, SmallVector<Value>(kChunk / kProduct * 4, b.f32(0)));
  for (int64_t k = 0; k < in.rows; k += kChunk) {
    Split a = load(left, x, k), w = load(right, step.y, k);
    multiply({a.high, {}}, {w.high, {}}, all[0]);
    if (!w.low.empty())
      multiply({a.high, {}}, {w.low, {}}, all[1]);
    if (!a.low.empty())
      multiply({a.low, {}}, {w.high, {}}, all[2]);
  }
  Value at = b.add(cuda::kWgmmaSums.row(b, lane), row),
        column = cuda::kWgmmaSums.column(b, lane);
  for (int64_t i = 0; i < kChunk / kProduct * 4; ++i) {
    Place place = cuda::kWgmmaSums.ofRegister(i);
    Value sum = b.fadd(all[0][i], b.fadd(all[1][i], all[2][i]));
    b.store(sum, sums, b.add(at, place.row), b.add(column, place.column));
  }
}

/// The formulas of a token, for a lane. A token that does not exist changes
/// nothing.
void Factors::coefficients(Value slot, Value exists) {
  FormulaRef formulas[] = {step.decay, step.corrected, step.read, step.mixed};
  for (auto [i, formula] : llvm::enumerate(formulas)) {
    Value value = evaluate(b, formula, [&](const Element &element) {
      return numberAt(element, b.i32(0), slot);
    });
    if (i == DecayOf)
      value = b.select(exists, value, b.f32(1));
    b.store(value, coefs, b.i32(i), slot);
  }
}

/// Column `token` of P, and of what T is solved from, and the token's numbers.
void Factors::matrices(Value token, Value exists, Value row) {
  SmallVector<SmallVector<Value>> of(kCoefs);
  for (int64_t i = 0; i < kCoefs; ++i)
    for (int64_t k = 0; k < kChunk; k += 4) {
      Value some = b.load(coefs, b.i32(i), b.i32(k), 4);
      for (int64_t j = 0; j < 4; ++j)
        of[i].push_back(b.extract(some, j));
    }
  // The decays' products of the tokens from `token` + 1, or the first, on.
  Value since = b.f32(1), begun = since;
  for (int64_t i = 0; i < kChunk; ++i) {
    Value at = b.i32(i), isLater = b.less(token, at);
    auto factor = [&](Value coef, int64_t first) {
      Value product = b.load(sums, b.i32(first + i), token);
      return b.select(isLater, b.fmul(b.fmul(coef, since), product), b.f32(0));
    };
    Value own = b.select(b.equal(token, at), of[MixedOf][i], b.f32(0));
    b.store(b.fadd(factor(of[ReadOf][i], 0), own), result, at, token);
    if (step.x)
      b.store(factor(of[CorrectedOf][i], kChunk), factors, at, token);
    since = b.select(isLater, b.fmul(since, of[DecayOf][i]), since);
    begun = b.select(b.less(at, token), b.fmul(begun, of[DecayOf][i]), begun);
  }
  Rows out = memory.numbersIn(launch);
  auto store = [&](Number which, Value value) {
    b.store(value, out, b.add(b.mul(row, kNumbers), which), token);
  };
  auto own = [&](int64_t i) { return b.load(coefs, b.i32(i), token); };
  store(Read, b.fmul(own(ReadOf), begun));
  store(After, b.select(exists, since, b.f32(0)));
  store(UpTo, b.fmul(own(DecayOf), begun));
  if (step.x)
    store(Corrected, b.fmul(own(CorrectedOf), begun));
}

/// Column `token` of T less 1, row by row: 1 = T - factors T.
void Factors::solve(Value token) {
  SmallVector<Value> column;
  for (int64_t i = 0; i < kChunk; ++i) {
    Value sum = b.f32(0);
    for (int64_t j = 0; j < i; j += 4) {
      Value some = b.load(factors, b.i32(i), b.i32(j), 4);
      for (int64_t k = j; k < std::min(i, j + 4); ++k)
        sum = b.fma(b.extract(some, k - j), column[k], sum);
    }
    b.store(sum, result, b.i32(kChunk + i), token);
    column.push_back(b.select(b.equal(token, b.i32(i)), b.f32(1), sum));
  }
}

/// Stores a matrix as both parts of a right operand; each warp has one.
void Factors::storeFragments(Value row) {
  Rows fragments = memory.fragmentsIn(launch);
  Value lane = b.lane(), first = b.mul(b.warp(), kChunk);
  SmallVector<Value> all;
  for (int64_t i = 0; i < 4; ++i) {
    Value pair = b.load(
        result, b.add(first, b.add(cuda::kMmaW.row(b, lane), i / 2 * kProduct)),
        b.add(cuda::kMmaW.column(b, lane), i % 2 * kProduct), 2);
    all.append({b.extract(pair, 0), b.extract(pair, 1)});
  }
  Split parts = split(all);
  row = b.add(b.mul(row, 2 * memory.matrices), b.mul(b.warp(), 2));
  for (auto [i, part] : {std::pair(0, &parts.high), {1, &parts.low}})
    b.storeTo(b.pack(*part),
              b.address(fragments, b.add(row, i), b.mul(lane, 4)));
}

void Factors::emit() {
  Type f32 = b.getF32Type();
  sums = b.shared(f32, 2 * kChunk * (kChunk + 1), kChunk + 1);
  coefs = b.shared(f32, kCoefs * kChunk, kChunk);
  factors = b.shared(f32, kChunk * (kChunk + kSumPad), kChunk + kSumPad);
  result = b.shared(f32, 2 * kChunk * (kChunk + 2), kChunk + 2);
  rows = memory.rowsIn(launch);
  Value lane = b.lane(), warp = b.warp(), first = b.mul(b.block(1), kChunk),
        row = b.add(b.mul(head, memory.chunks), b.block(1)),
        token = b.rem(lane, kChunk),
        exists = b.less(b.add(first, token), count),
        isFirstHalf = b.less(lane, b.i32(kChunk));
  for (int64_t i = 0; i < kChunk; i += kFirstWarps) {
    Value slot = b.add(warp, i);
    bring(b.add(first, slot), slot);
  }
  auto whenWarp = [&](int64_t which, llvm::function_ref<void()> body) {
    b.when(b.equal(warp, b.i32(which)), body);
  };
  b.barrier();
  whenWarp(0, [&] { products(step.q, 0); });
  if (step.x)
    whenWarp(1, [&] { products(step.x, kChunk); });
  whenWarp(2,
           [&] { b.when(isFirstHalf, [&] { coefficients(token, exists); }); });
  b.barrier();
  whenWarp(0, [&] {
    b.when(isFirstHalf, [&] { matrices(token, exists, row); });
    cuda::warpBarrier(b);
    if (step.x)
      b.when(isFirstHalf, [&] { solve(token); });
  });
  b.barrier();
  b.when(b.less(warp, b.i32(memory.matrices)), [&] { storeFragments(row); });
  launch.finish({in.of.constant(in.box[Recurrence::Head].constant),
                 in.of.blocks(in.box[Recurrence::Token], kChunk)});
}

//===----------------------------------------------------------------------===//
// From chunk to chunk
//===----------------------------------------------------------------------===//

/// The columns of a block.
static int64_t columnsOf(const Recurrence &in,
                         const RecurrenceChunkSizes &sizes) {
  return std::gcd(in.box[Recurrence::Column].constant, sizes.columns);
}

/// The products whose sums a warp exchanges with the warp that has the other
/// half of the rows.
static int64_t sharedProducts(const Step &step) {
  return (step.x ? kChunk / kProduct : 0) + 1;
}

/// The shared memory of a block, in bytes.
static int64_t sharedBytes(Recurrence &in, const Step &step,
                           const ChunkMemory &memory,
                           const RecurrenceChunkSizes &sizes) {
  int64_t columns = columnsOf(in, sizes), warps = columns / kColumns * kParts,
          rows = memory.tiles.size() * (in.rows + kPad) * 2,
          ofToken = inputsOf(in, {step.added, step.own}, false).size(),
          ofColumn = inputsOf(in, {step.added, step.own}, true).size();
  return 2 * kChunk * (rows + 4 * (ofToken + ofColumn * (columns + kSumPad))) +
         warps * sharedProducts(step) * 16 * kWarp;
}

static int64_t threadsOf(int64_t columns, const RecurrenceChunkSizes &sizes) {
  return (columns / kColumns * kParts + sizes.warps) * kWarp;
}

Scan::Scan(Recurrence &in, const Step &step, const ChunkMemory &memory,
           const RecurrenceChunkSizes &sizes)
    : Chunk(in, step, memory, "", threadsOf(columnsOf(in, sizes), sizes),
            /*buffers=*/2, {step.added, step.own}),
      blockColumns(columnsOf(in, sizes)), warps(sizes.warps),
      partRows(in.rows / kParts) {
  ofColumns = inputsOf(in, {step.added, step.own}, /*ofColumn=*/true);
  int64_t stride = blockColumns + kSumPad;
  columns = b.shared(
      b.getF32Type(),
      2 * static_cast<int64_t>(ofColumns.size()) * kChunk * stride, stride);
  exchange = b.shared(b.getF32Type(),
                      owners() * sharedProducts(step) * 4 * kWarp, 4 * kWarp);
}

/// The other warps begin to copy a chunk's rows.
void Scan::copyRows(Value chunk, Value buffer) {
  int64_t pieces = in.rows / 8, all = kChunk * pieces;
  Value thread = b.sub(b.thread(), b.i32(owners() * kWarp)),
        first = b.mul(chunk, kChunk);
  for (size_t i = 0; i < memory.tiles.size(); ++i)
    for (int64_t at = 0; at < all; at += warps * kWarp) {
      Value piece = b.add(thread, at), slot = b.div(piece, pieces),
            column = b.mul(b.rem(piece, pieces), 8);
      auto copy = [&] {
        Value row = memory.rowOf(b, memory.tiles[i], head, b.add(first, slot));
        cuda::copyAsync(
            b, b.address(tiles, b.add(firstRow(buffer, i), slot), column),
            b.address(rows, row, column), 16);
      };
      if (at + warps * kWarp <= all)
        copy();
      else
        b.when(b.less(piece, b.i32(all)), copy);
    }
  cuda::commitCopies(b);
}

/// The other warps bring a chunk's rows and numbers. In place of tokens after
/// the last one they bring numbers of that one: P and T leave them out.
void Scan::bring(Value chunk, Value buffer) {
  copyRows(chunk, buffer);
  Value lane = b.lane(), last = b.sub(count, b.i32(1)),
        warp = b.sub(b.warp(), b.i32(owners())),
        own = blockColumns < kWarp ? b.rem(lane, blockColumns) : lane;
  Inputs inputs(ofNumbers);
  inputs.append(ofColumns);
  // All are loaded before the first one is stored.
  SmallVector<SmallVector<Value>> made;
  for (int64_t i = 0; i < kChunk; i += warps) {
    Value token = b.add(b.mul(chunk, kChunk), b.add(warp, i));
    SmallVector<Value> at =
        loops(b.min(token, last), own, b.mul(lane, in.rows / kWarp));
    made.push_back(in.bring(launch, inputs, at, in.rows / kWarp));
  }
  auto store = [&](const Rows &to, size_t first, size_t count, Value column) {
    for (auto [i, values] : llvm::enumerate(made))
      for (size_t k = 0; k < count; ++k) {
        Value slot = b.add(warp, static_cast<int64_t>(i) * warps),
              place = placeOf(buffer, count, k, slot);
        b.store(values[first + k], to, place, column);
      }
  };
  b.when(b.less(lane, b.i32(1)),
         [&] { store(numbers, 0, ofNumbers.size(), b.i32(0)); });
  auto storeColumns = [&] {
    store(columns, ofNumbers.size(), ofColumns.size(), own);
  };
  if (blockColumns == kWarp)
    storeColumns();
  else
    b.when(b.less(lane, b.i32(blockColumns)), storeColumns);
  cuda::awaitCopies(b, 0);
}

/// Calls `body` with the loops of each of the lane's numbers of S.
void Scan::forMatrix(
    llvm::function_ref<void(size_t number, ValueRange at)> body) {
  Value row = b.add(b.mul(part, partRows), cuda::kMmaSums.column(b, b.lane()));
  for (int64_t i = 0; i < partRows / kProduct * 4; ++i) {
    Place place = cuda::kMmaSums.ofRegister(i % 4);
    body(i, loops(b.i32(0), b.add(column, place.row),
                  b.add(row, i / 4 * kProduct + place.column)));
  }
}

/// Adds the sums of the other half of the rows. Returns S^T x of all tokens,
/// then S^T q of the tokens for which this warp computes the result.
SmallVector<Value> Scan::summed(ArrayRef<Value> ofX, ArrayRef<Value> ofQ) {
  Value at = b.mul(b.lane(), 4), warp = b.warp(),
        isFirst = b.equal(part, b.i32(0));
  SmallVector<Value> mine(ofX), theirs(ofX);
  for (size_t i = 0; i < 4; ++i) {
    mine.push_back(b.select(isFirst, ofQ[i], ofQ[4 + i]));
    theirs.push_back(b.select(isFirst, ofQ[4 + i], ofQ[i]));
  }
  auto rowOf = [&](Value warp, size_t i) {
    return b.add(b.mul(warp, sharedProducts(step)), i / 4);
  };
  for (size_t i = 0; i < theirs.size(); i += 4)
    b.storeTo(b.pack(ArrayRef(theirs).slice(i, 4)),
              b.address(exchange, rowOf(warp, i), at));
  cuda::barrierOf(b, owners() * kWarp);
  Value other = b.exclusiveOr(warp, b.i32(1));
  for (size_t i = 0; i < mine.size(); i += 4) {
    Value some = b.load(exchange, rowOf(other, i), at, 4);
    for (size_t j = 0; j < 4; ++j)
      mine[i + j] = b.fadd(mine[i + j], b.extract(some, j));
  }
  return mine;
}

Scan::Computed Scan::load(Value chunk) {
  Value lane = b.lane(), pair = cuda::kMmaSums.column(b, lane),
        rest = b.add(b.mul(head, memory.chunks), chunk);
  auto fragment = [&](int64_t matrix, Value first, int64_t words) {
    Split parts;
    for (auto [i, to] : {std::pair(0, &parts.high), {1, &parts.low}}) {
      Value row = b.add(b.mul(rest, 2 * memory.matrices), 2 * matrix + i);
      Value some = b.load(fragments, row, b.add(b.mul(lane, 4), first), words,
                          Access::ReadOnly);
      for (int64_t j = 0; j < words; ++j)
        to->push_back(b.extract(some, j));
    }
    return parts;
  };
  auto numbers = [&](Number which, Value first, int64_t count) {
    Value row = b.add(b.mul(rest, kNumbers), which);
    return b.load(numbersOfChunks, row, first, count, Access::ReadOnly);
  };
  auto perSum = [&](Number which) {
    SmallVector<Value> all;
    for (int64_t i = 0; i < kChunk; i += kProduct) {
      Value some = numbers(which, b.add(pair, i), 2);
      for (int64_t j = 0; j < 4; ++j)
        all.push_back(b.extract(some, j % 2));
    }
    return all;
  };
  Computed of;
  of.p = fragment(0, b.mul(part, 2), 2);
  of.after = perSum(After);
  of.read = numbers(Read, b.add(b.mul(part, kProduct), pair), 2);
  of.whole = numbers(UpTo, b.i32(kChunk - 1), 1);
  if (step.x) {
    of.t = fragment(1, b.i32(0), 4);
    of.corrected = perSum(Corrected);
  }
  return of;
}

/// S^T x of all tokens, if there is x, and S^T q of the tokens whose rows this
/// warp makes.
SmallVector<Value> Scan::productsOf(ArrayRef<Value> matrix, Value buffer) {
  SmallVector<Value> ofX(step.x ? kSumsOfChunk : 0, b.f32(0)),
      ofQ(kSumsOfChunk, b.f32(0));
  Address start = startOf(cuda::kLoadW, buffer, b.mul(part, partRows));
  for (int64_t k = 0; k < partRows; k += kChunk) {
    Split left = split(matrix.slice(k / kProduct * 4, 8));
    if (step.x)
      multiply(left, Chunk::load(start, step.x, k), ofX);
    multiply(left, Chunk::load(start, step.q, k), ofQ);
  }
  return summed(ofX, ofQ);
}

/// The value of a formula for the sum `place` further than the lane's first
/// one, whose token has the place `slot`.
Value Scan::formulaAt(const FormulaRef &formula, Value buffer, Value slot,
                      Place place) {
  return evaluate(b, formula, [&](const Element &element) {
    return numberAt(element, buffer, b.add(slot, place.column),
                    b.add(column, place.row));
  });
}

/// u of all tokens.
SmallVector<Value> Scan::updates(const Computed &of, ArrayRef<Value> sums,
                                 Value buffer) {
  Value pair = cuda::kMmaSums.column(b, b.lane());
  SmallVector<Value> u;
  for (int64_t i = 0; i < kSumsOfChunk; ++i) {
    Value added =
        formulaAt(step.added, buffer, pair, cuda::kWgmmaSums.ofRegister(i));
    u.push_back(step.x ? b.fma(of.corrected[i], sums[i], added) : added);
  }
  if (step.x) { // T is given less 1
    Split wanted = split(u);
    multiply(wanted, of.t, u);
  }
  return u;
}

/// Stores the rows of the tokens that are this warp's.
void Scan::storeRows(const Computed &of, ArrayRef<Value> sums,
                     ArrayRef<Value> u, Value chunk, Value buffer) {
  Value pair = b.add(b.mul(part, kProduct), cuda::kMmaSums.column(b, b.lane()));
  SmallVector<Value> out;
  for (int64_t i = 0; i < 4; ++i)
    out.push_back(b.fmul(b.extract(of.read, i % 2), sums.take_back(4)[i]));
  multiply(split(u), of.p, out);
  for (int64_t i = 0; i < 4; ++i) {
    Place place = cuda::kMmaSums.ofRegister(i);
    Value token = b.add(b.mul(chunk, kChunk), b.add(pair, place.column));
    if (step.own)
      out[i] = b.fadd(out[i], formulaAt(step.own, buffer, pair, place));
    b.when(b.less(token, count), [&] {
      launch.store(out[i], in.into,
                   loops(token, b.add(column, place.row), b.i32(0)));
    });
  }
}

/// S after a chunk, whose rows are stored.
SmallVector<Value> Scan::consume(Value chunk, Value buffer, ValueRange old) {
  SmallVector<Value> matrix(old);
  Computed of = load(chunk);
  SmallVector<Value> sums = productsOf(matrix, buffer),
                     u = updates(of, sums, buffer);
  storeRows(of, sums, u, chunk, buffer);
  for (auto [value, factor] : llvm::zip_equal(u, of.after))
    value = b.fmul(value, factor);
  Split left = split(u);
  Address start = startOf(cuda::kLoadX, buffer, b.mul(part, partRows));
  for (int64_t k = 0; k < partRows; k += kChunk) {
    SmallVector<Value> change(kSumsOfChunk, b.f32(0));
    multiply(left, Chunk::load(start, step.y, k, /*transposed=*/true), change);
    for (int64_t i = 0; i < kSumsOfChunk; ++i) {
      Value &number = matrix[k / kProduct * 4 + i];
      number = b.fma(of.whole, number, change[i]);
    }
  }
  return matrix;
}

void Scan::emit() {
  fragments = memory.fragmentsIn(launch);
  numbersOfChunks = memory.numbersIn(launch);
  rows = memory.rowsIn(launch);
  int64_t blocks = in.box[Recurrence::Column].constant / blockColumns;
  band = b.div(b.block(1), blocks);
  firstColumn = b.mul(b.rem(b.block(1), blocks), blockColumns);
  Value warp = b.warp(), isOwner = b.less(warp, b.i32(owners())),
        zero = b.i32(0), one = b.i32(1), chunks = b.ceilDiv(count, kChunk);
  part = b.rem(warp, kParts);
  column = b.add(b.mul(b.div(warp, kParts), kColumns),
                 cuda::kMmaSums.row(b, b.lane()));
  SmallVector<Value> nothing(partRows / kProduct * 4, b.f32(0));
  auto matrix = llvm::to_vector(b.choose(
      isOwner,
      [&] {
        SmallVector<Value> first;
        forMatrix([&](size_t, ValueRange at) {
          first.push_back(in.start(launch, at));
        });
        return first;
      },
      [&] { return nothing; }));
  // In each turn some warps bring a chunk, and the others compute the chunk
  // that the turn before has brought.
  matrix = b.loop(
      zero, b.add(chunks, 1), 1, matrix, [&](Value turn, ValueRange old) {
        Value buffer = b.rem(turn, 2), before = b.sub(turn, one);
        auto next = llvm::to_vector(b.choose(
            b.both(isOwner, b.less(zero, turn)),
            [&] { return consume(before, b.sub(one, buffer), old); },
            [&] {
              // Owners bring nothing in the first turn.
              b.when(b.both(b.less(b.i32(owners() - 1), warp),
                            b.less(turn, chunks)),
                     [&] { bring(turn, buffer); });
              return SmallVector<Value>(old);
            }));
        b.barrier();
        return next;
      });
  b.when(isOwner, [&] {
    forMatrix([&](size_t i, ValueRange at) {
      launch.store(matrix[i], in.stateAt, at);
    });
  });
  launch.finish({in.of.constant(in.box[Recurrence::Head].constant),
                 in.of.constant(in.box[Recurrence::Band].constant * blocks)});
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

bool cuda::emitRecurrenceMma(Recurrence &in, const Tuning &tuning) {
  if (in.box[Recurrence::Token].isConstant() || in.ofTokens)
    return false;
  const RecurrenceChunkSizes &sizes = tuning.recurrenceChunks;
  auto most = in.of.mostTokens();
  if (in.of.kernel->hasAttr(kInvariantAttribute))
    return in.fail("what a token computes may not depend on where a prompt is "
                   "cut");
  // Products in two parts have an error of 2^-17, which f32 does not allow.
  if (getElementTypeOrSelf(in.into.tensor).isF32())
    return in.fail("its rows are f32, which tensor cores do not reach");
  if (!most)
    return in.fail("the most tokens of a call are not known");
  if (columnsOf(in, sizes) % kColumns)
    return in.fail("its matrices do not have a multiple of 16 columns");
  std::optional<Step> step = in.step();
  if (!step)
    return false;
  ChunkMemory memory(in, *step, *most);
  if (sharedBytes(in, *step, memory, sizes) > kDeclaredMemory)
    return in.fail("the rows of two chunks do not fit shared memory");
  Factors first(in, *step, memory);
  if (!first.readsRows())
    return false;
  memory.allocate(in.of);
  first.emit();
  Scan(in, *step, memory, sizes).emit();
  return true;
}
