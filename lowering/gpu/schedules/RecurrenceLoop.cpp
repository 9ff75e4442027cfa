/// A matrix whose columns each token updates (Recurrence.h), token by token.
///
/// A block computes one iteration of scf.forall, or some of its columns. In a
/// batch it computes the tokens of one chain (Chains.h), one after the other.
/// The matrix stays in registers of half of the block's warps: four
/// neighbouring lanes have a column, and add their sums by shuffles. The other
/// warps copy what tokens read to shared memory, some tokens ahead, and compute
/// what is read of it: the norms of keys, for example. They fill one half of a
/// buffer while the other half is read. The schedule knows no formula: it
/// clones payloads.
#include "lowering/gpu/schedules/Chains.h"
#include "lowering/gpu/schedules/Choose.h"
#include "lowering/gpu/schedules/Recurrence.h"
#include "lowering/gpu/schedules/Schedules.h"

#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Lanes of a column, and neighbouring rows that a lane has: 16 bytes.
static constexpr int64_t kLanes = 4, kRows = 4;
/// Columns of a warp, and the most columns of a block.
static constexpr int64_t kColumns = kWarp / kLanes, kMostColumns = kWarp;

namespace {
class RecurrenceLoop {
public:
  RecurrenceLoop(Recurrence &in, const RecurrenceSizes &sizes);
  bool emit();

private:
  using Input = Recurrence::Input;

  /// The values of the loops, for the lane's column.
  SmallVector<Value> loops(Value token, Value row) {
    return {token, head, band, column, row};
  }
  void produce(Value token, Value slot);
  Value load(const Input &input, Value slot, int64_t group);
  SmallVector<Value> consume(Value token, Value slot, ValueRange matrix);
  SmallVector<Value> start(Value token);
  void finish(Value token, ValueRange matrix);
  SmallVector<Value> nothing();
  void emitText(int64_t tokens);
  void emitChain();
  Value rowAt(int64_t group);
  /// Where shared memory has an input of a token.
  int64_t placeOf(const Input &input) {
    return places[&input - in.inputs.data()];
  }

  Recurrence &in;
  const RecurrenceSizes &sizes;
  Box &box;
  int64_t rows, columns; // of a block
  int64_t warps;         // that have the columns, and that read ahead
  SmallVector<int64_t> places;
  int64_t numbers = 0; // of a token in shared memory
  Launch launch;
  KernelBuilder &b;
  Value head, band, column, firstColumn, firstRow;
  Rows shared;
};
} // namespace

RecurrenceLoop::RecurrenceLoop(Recurrence &in, const RecurrenceSizes &sizes)
    : in(in), sizes(sizes), box(in.box), rows(in.rows),
      columns(std::gcd(box[Recurrence::Column].constant, kMostColumns)),
      warps(columns / kColumns), places(in.inputs.size()),
      launch(in.of, "", 2 * warps * kWarp), b(launch.b) {
  for (bool ofRow : {true, false})
    for (bool ofColumn : {true, false})
      for (auto [input, place] : llvm::zip_equal(in.inputs, places))
        if (input.ofRow == ofRow && input.ofColumn == ofColumn) {
          place = numbers;
          numbers += ofRow ? rows : ofColumn ? columns : 1;
        }
  numbers = llvm::alignTo(numbers, kRows);
}

/// The row of the matrix that begins a lane's group `group` of rows.
Value RecurrenceLoop::rowAt(int64_t group) {
  return b.add(firstRow, group * kLanes * kRows);
}

/// A warp brings what a token reads to the place `slot` of shared memory.
void RecurrenceLoop::produce(Value token, Value slot) {
  int64_t lanes = rows / kWarp;
  Value lane = b.lane(), at = b.mul(lane, lanes),
        own = columns < kWarp ? b.min(lane, b.i32(columns - 1)) : lane;
  SmallVector<Value> loops = {token, head, band, b.add(firstColumn, own), at};
  SmallVector<const Input *> inputs;
  for (const Input &input : in.inputs)
    inputs.push_back(&input);
  SmallVector<Value> values = in.bring(launch, inputs, loops, lanes);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input &input = *inputs[i];
    auto store = [&](Value place) {
      b.storeTo(values[i],
                b.address(shared, slot, b.add(place, placeOf(input))));
    };
    if (input.ofRow)
      store(at);
    else if (input.ofColumn && columns == kWarp)
      store(lane);
    else
      b.when(b.less(lane, b.i32(input.ofColumn ? columns : 1)),
             [&] { store(lane); });
  }
}

/// An input from the place `slot` of shared memory: a number, or one for each
/// row of a group.
Value RecurrenceLoop::load(const Input &input, Value slot, int64_t group) {
  Value place = input.ofRow      ? rowAt(group)
                : input.ofColumn ? b.sub(column, firstColumn)
                                 : b.i32(0);
  Type type = cast<RankedTensorType>(input.element.tensor.getType());
  return b.narrow(b.load(shared, slot, b.add(place, placeOf(input)),
                         input.ofRow ? kRows : 1),
                  getElementTypeOrSelf(type));
}

/// Updates the matrix by a token whose numbers are at `slot`, and stores the
/// token's row.
SmallVector<Value> RecurrenceLoop::consume(Value token, Value slot,
                                           ValueRange matrix) {
  SmallVector<Value> at = loops(token, b.i32(0));
  // What all rows of a column share: sums, and what is computed from them.
  SmallVector<std::pair<Element, Value>> known;
  size_t group = 0;
  auto leaf = [&](const Element &element) -> Value {
    if (element.tensor == in.carried)
      return matrix[group];
    for (auto &[other, value] : known)
      if (other == element)
        return value;
    const Input *input = in.find(element);
    if (!input)
      return {};
    Value value = load(*input, slot, group);
    if (!input->ofRow)
      known.push_back({element, value});
    return value;
  };
  auto add = [&](Value x, Value y) { return b.fadd(x, y); };
  for (auto [i, factor] : llvm::enumerate(in.factors)) {
    Value sum = b.zero(matrix[0].getType());
    for (group = 0; group < matrix.size(); ++group)
      sum = b.fma(leaf(factor), matrix[group], sum);
    known.push_back({in.sumOf(i), b.warpSum(b.reduce(sum, add), kLanes)});
  }
  Evaluator evaluate(launch, box, at, kRows, leaf);
  Element updated = in.updated();
  for (const Element &read :
       in.elements.operands(in.elements.define(updated, box), box))
    if (read.tensor != in.carried && !dependsOn(read, Recurrence::Row))
      known.push_back({read, evaluate(read)});
  Value own = evaluate(in.row);
  b.when(b.equal(b.rem(b.lane(), kLanes), b.i32(0)),
         [&] { launch.store(own, in.into, at); });
  SmallVector<Value> result;
  for (group = 0; group < matrix.size(); ++group)
    result.push_back(evaluate(updated));
  return result;
}

/// The matrix before a token: each lane's rows of its column.
SmallVector<Value> RecurrenceLoop::start(Value token) {
  SmallVector<Value> matrix;
  for (int64_t group = 0; group < rows / (kLanes * kRows); ++group) {
    SmallVector<Value> numbers;
    for (int64_t i = 0; i < kRows; ++i)
      numbers.push_back(in.start(launch, loops(token, b.add(rowAt(group), i))));
    matrix.push_back(b.pack(numbers));
  }
  return matrix;
}

void RecurrenceLoop::finish(Value token, ValueRange matrix) {
  for (auto [group, numbers] : llvm::enumerate(matrix))
    for (int64_t i = 0; i < kRows; ++i)
      launch.store(b.extract(numbers, i), in.stateAt,
                   loops(token, b.add(rowAt(group), i)));
}

/// The value that warps without a matrix pass on in its place.
SmallVector<Value> RecurrenceLoop::nothing() {
  Type type = VectorType::get({kRows}, b.getF32Type());
  return SmallVector<Value>(rows / (kLanes * kRows), b.zero(type));
}

/// A chain is short, so a warp copies each token's numbers when it is computed.
void RecurrenceLoop::emitChain() {
  shared = b.shared(b.getF32Type(), numbers, numbers);
  Value isOwner = b.less(b.warp(), b.i32(warps)), slot = b.i32(0);
  forChain(launch, {in.readAt.at[0], in.stateAt.at[0]}, b.block(2),
           launch.number(box[Recurrence::Token]), [&](Value token) {
             SmallVector<Value> matrix = llvm::to_vector(b.choose(
                 isOwner, [&] { return start(token); },
                 [&] {
                   b.when(b.equal(b.warp(), b.i32(warps)),
                          [&] { produce(token, slot); });
                   return nothing();
                 }));
             b.barrier();
             b.when(isOwner,
                    [&] { finish(token, consume(token, slot, matrix)); });
             b.barrier();
           });
}

/// Blocks (i, j, k): i is the head, j is columns, k is the first row of a
/// chain.
bool RecurrenceLoop::emit() {
  int64_t parts = box[Recurrence::Column].constant / columns;
  head = b.block(0);
  band = b.div(b.block(1), parts);
  firstColumn = b.mul(b.rem(b.block(1), parts), columns);
  column = b.add(firstColumn,
                 b.add(b.mul(b.warp(), kColumns), b.div(b.lane(), kLanes)));
  firstRow = b.mul(b.rem(b.lane(), kLanes), kRows);
  if (!in.hasWideRows(launch))
    return false;
  int64_t most = kDeclaredMemory / (2 * sizeof(float) * numbers);
  if (most < 1)
    return in.fail("a token's numbers do not fit shared memory");
  if (in.ofTokens)
    emitChain();
  else
    emitText(std::min(sizes.tokens, most));
  launch.finish({in.of.constant(box[Recurrence::Head].constant),
                 in.of.constant(box[Recurrence::Band].constant * parts),
                 in.ofTokens ? in.of.blocks(box[Recurrence::Token], 1)
                             : in.of.constant(1)});
  return true;
}

/// Half of the warps bring as many as `tokens` tokens ahead.
void RecurrenceLoop::emitText(int64_t tokens) {
  if (box[Recurrence::Token].isConstant())
    tokens = std::min(tokens, box[Recurrence::Token].constant);
  shared = b.shared(b.getF32Type(), 2 * tokens * numbers, numbers);
  Value count = launch.number(box[Recurrence::Token]),
        isOwner = b.less(b.warp(), b.i32(warps));
  SmallVector<Value> matrix = llvm::to_vector(b.choose(
      isOwner, [&] { return start(b.i32(0)); }, [&] { return nothing(); }));
  // In each turn some warps bring tokens, and the others compute the tokens
  // that the turn before has brought.
  Value end = b.mul(b.add(b.ceilDiv(count, tokens), 1), tokens);
  matrix =
      b.loop(b.i32(0), end, tokens, matrix, [&](Value turn, ValueRange old) {
        Value half = b.mul(b.rem(b.div(turn, tokens), 2), tokens);
        auto next = llvm::to_vector(b.choose(
            isOwner,
            [&] {
              // Nothing in the first turn.
              Value before = b.sub(turn, b.i32(tokens)),
                    other = b.sub(b.i32(tokens), half);
              return b.loop(b.max(before, b.i32(0)), b.min(turn, count), 1, old,
                            [&](Value token, ValueRange matrix) {
                              return consume(token,
                                             b.add(other, b.sub(token, before)),
                                             matrix);
                            });
            },
            [&] {
              b.loop(b.add(turn, b.sub(b.warp(), b.i32(warps))),
                     b.min(b.add(turn, tokens), count), warps,
                     [&](Value token) {
                       produce(token, b.add(half, b.sub(token, turn)));
                     });
              return SmallVector<Value>(old);
            }));
        b.barrier();
        return next;
      });
  b.when(isOwner, [&] { finish(b.i32(0), matrix); });
}

bool simt::emitRecurrenceLoop(Recurrence &in, const Tuning &tuning) {
  return RecurrenceLoop(in, tuning.recurrence).emit();
}
