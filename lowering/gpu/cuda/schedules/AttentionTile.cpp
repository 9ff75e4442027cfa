#include "lowering/gpu/cuda/schedules/AttentionTile.h"
#include "lowering/gpu/cuda/Layouts.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

AttentionTile::AttentionTile(KernelFunction &of, const AttentionMemory &in,
                             const Twine &suffix, int64_t threads,
                             int64_t blockRows, int64_t together,
                             int64_t across)
    : AttentionKernel(of, in, suffix, threads), element(in.queryElement),
      size(in.size), blockRows(blockRows), together(together), across(across),
      unit(1 / std::log(2.0)) {
  if (factor && *factor > 0)
    unit *= *factor;
}

AttentionTile::Row AttentionTile::rowOf(Value index) {
  Value token = b.div(index, together), query = b.rem(index, together);
  if (parts() > 1)
    query = b.add(firstQuery, query);
  return {b.min(token, b.sub(tokens, b.i32(1))), query, b.less(token, tokens)};
}

AttentionTile::Row AttentionTile::ownRow(Value start, int64_t half) {
  Value warp = across == 1 ? b.warp() : b.rem(b.warp(), blockRows / 16);
  return rowOf(b.add(b.add(start, b.mul(warp, 16)),
                     b.add(cuda::kWgmmaSums.row(b, b.lane()), half * 8)));
}

void AttentionTile::findBlock() {
  tokens = launch.number(in.tokens);
  kvHead = b.block(0);
  if (parts() > 1) {
    firstQuery = b.mul(b.rem(kvHead, parts()), together);
    kvHead = b.div(kvHead, parts());
  }
  Value last = b.sub(b.blocks(1), b.i32(1));
  start = b.mul(b.sub(last, b.block(1)), blockRows);
  Value end = b.add(rowOf(b.add(start, blockRows - 1)).token, 1);
  std::tie(firstKey, endKey) = keysSeen(rowOf(start).token, end);
}

void AttentionTile::findRows() {
  for (int64_t half = 0; half < 2; ++half) {
    Row row = ownRow(start, half);
    auto [first, end] = keysSeen(row.token, b.add(row.token, 1));
    rows.push_back({row, first, end});
  }
}

SmallVector<Value> AttentionTile::scores(ArrayRef<Value> products, Value first,
                                         bool masked) {
  SmallVector<Value> s;
  Value t = b.add(first, cuda::kWgmmaSums.column(b, b.lane()));
  Value lastKey = b.sub(endKey, b.i32(1));
  for (auto [i, product] : llvm::enumerate(products)) {
    Place at = cuda::kWgmmaSums.ofRegister(i);
    const OwnRow &row = rows[at.row / 8];
    Value key = b.add(t, at.column), visible = b.less(key, row.end);
    if (!bounds.first.empty())
      visible = b.both(visible, b.less(b.sub(row.first, b.i32(1)), key));
    if (masked)
      key = b.min(key, lastKey);
    Value score = this->score(product, row.query, row.token, key, visible);
    if (factor && *factor <= 0)
      score = b.fmul(score, b.f32(*factor));
    if (masked)
      score = b.select(visible, score, b.f32(-INFINITY));
    s.push_back(score);
  }
  return s;
}

/// A lane's rows see all keys of the tile or some.
SmallVector<Value> AttentionTile::scores(ArrayRef<Value> products,
                                         Value first) {
  if (!bounds.exact)
    return scores(products, first, /*masked=*/true);
  auto keys = static_cast<int64_t>(products.size()) * 2;
  Value last = b.add(first, keys - 1);
  Value all = b.both(b.less(last, rows[0].end), b.less(last, rows[1].end));
  if (!bounds.first.empty())
    for (const OwnRow &row : rows)
      all = b.both(all, b.less(b.sub(row.first, b.i32(1)), first));
  return b.choose(
      all, [&] { return scores(products, first, /*masked=*/false); },
      [&] { return scores(products, first, /*masked=*/true); });
}

/// Which of its two rows a lane's value number `i` belongs to: g, or g + 8.
static size_t halfOf(size_t i) {
  return cuda::kWgmmaSums.ofRegister(i).row / 8;
}

std::array<Value, 2> AttentionTile::softmax(MutableArrayRef<Value> s,
                                            MutableArrayRef<Value> max,
                                            MutableArrayRef<Value> sums) {
  auto power = [&](Value x, Value max) {
    return b.exp2(b.fma(x, b.f32(unit), b.fmul(max, b.f32(-unit))));
  };
  std::array<Value, 2> by;
  for (size_t half = 0; half < 2; ++half) {
    Value highest = max[half];
    for (size_t i = 0; i < s.size(); ++i)
      if (halfOf(i) == half)
        highest = b.fmax(highest, s[i]);
    highest = b.warpMax(highest, 4);
    // 1 where no key of the tile counts more: such tiles change no bit.
    by[half] = b.exp2(b.fmul(b.fsub(max[half], highest), b.f32(unit)));
    max[half] = highest;
    sums[half] = b.fmul(sums[half], by[half]);
    for (size_t i = 0; i < s.size(); ++i)
      if (halfOf(i) == half) {
        s[i] = power(s[i], highest);
        sums[half] = b.fadd(sums[half], s[i]);
      }
  }
  return by;
}

void AttentionTile::shrink(MutableArrayRef<Value> out,
                           const std::array<Value, 2> &by) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = b.fmul(out[i], by[halfOf(i)]);
}

SmallVector<Value> AttentionTile::rounded(ArrayRef<Value> p) {
  SmallVector<Value> pairs;
  for (size_t i = 0; i < p.size(); i += 2)
    pairs.push_back(b.bits(b.narrow(b.pack({p[i], p[i + 1]}), element)));
  return pairs;
}

void AttentionTile::store(ArrayRef<Value> max, ArrayRef<Value> sums,
                          ArrayRef<Value> out) {
  Value t = cuda::kWgmmaSums.column(b, b.lane());
  if (across > 1) // which of the warps that share rows
    t = b.add(t, b.mul(b.div(b.warp(), blockRows / 16), columns()));
  Value start = b.opaque(this->start);
  for (int64_t half = 0; half < 2; ++half) {
    Row row = ownRow(start, half);
    // One division, not one for each element: those are calls in machine code.
    Value sum = divisor(b.warpSum(sums[half], 4),
                        b.fmul(max[half], b.f32(unit)), row.query);
    Value inverse = b.fdiv(b.f32(1), sum);
    auto elementAt = [&](int64_t at) {
      return finished(b.fmul(out[at], inverse));
    };
    b.when(row.exists, [&] {
      for (int64_t column = 0; column < columns(); column += 8) {
        int64_t at = column / 8 * 4 + half * 2;
        launch.store(b.pack({elementAt(at), elementAt(at + 1)}), in.result,
                     {row.token, kvHead, row.query, b.add(t, column)});
      }
    });
  }
}

gpu::GPUFuncOp AttentionTile::finish(int64_t sharedBytes) {
  // Heads that do not divide the rows of a block: a few blocks too many.
  launch.finish({of.constant(in.kvHeads * parts()),
                 of.blocks(in.tokens, blockRows / together)},
                sharedBytes);
  return b.function;
}
