#include "lowering/gpu/build/Layout.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

Place Layout::placeOf(int64_t number, ArrayRef<Place> moves) {
  assert(number >> moves.size() == 0 && "the layout has no such number");
  Place place;
  for (auto [bit, move] : llvm::enumerate(moves))
    if (number >> bit & 1) {
      place.row += move.row;
      place.column += move.column;
    }
  return place;
}

/// Neighbouring bits whose values double are one division, remainder and
/// product.
Value simt::spreadBits(KernelBuilder &b, Value number, ArrayRef<int64_t> values,
                       bool hasMore) {
  Value sum;
  for (size_t first = 0, end; first < values.size(); first = end) {
    for (end = first + 1;
         end < values.size() && values[end] == 2 * values[end - 1];)
      ++end;
    if (!values[first])
      continue;
    Value part = b.div(number, int64_t(1) << first);
    if (end < values.size() || hasMore)
      part = b.rem(part, int64_t(1) << (end - first));
    part = b.mul(part, values[first]);
    sum = sum ? b.add(part, sum) : part;
  }
  return sum ? sum : b.i32(0);
}

static SmallVector<int64_t> parts(ArrayRef<Place> moves, int64_t Place::*part) {
  return llvm::map_to_vector(moves,
                             [&](const Place &move) { return move.*part; });
}

Value Layout::row(KernelBuilder &b, Value lane) const {
  return spreadBits(b, lane, parts(lanes, &Place::row));
}

Value Layout::column(KernelBuilder &b, Value lane) const {
  return spreadBits(b, lane, parts(lanes, &Place::column));
}
