/// The common parts of attention's kernels: the memory that attention reads and
/// writes, the keys that a token sees, and the ops on a score.
#pragma once

#include "lowering/gpu/build/Evaluator.h"
#include "lowering/kernel/Attention.h"

namespace cria::simt {

/// The maximum of a row before any key: finite, so that differences with it are
/// numbers. A smaller score counts as hidden.
/// A power of two, so that its product with any factor is exact.
inline constexpr double kNone = -0x1p100;

/// An attention between arguments of a kernel function.
struct AttentionMemory {
  Attention attention;
  /// Elements (t, h, g, d) of arguments.
  Element query, result;
  Size tokens;
  /// Heads of the caches, queries of each, elements of a head; positions of a
  /// cache; rows of memory that a key is.
  int64_t kvHeads, group, size, room, keyRows;
  /// Elements of a value: `size`, or fewer where values are parts of rows.
  int64_t valueSize;
  /// The positions of a page of the caches, or of all of a ring, which is as a
  /// text's only page; 0 of other caches.
  int64_t page = 0;
  mlir::Type queryElement, cacheElement;

  bool hasWholeValues() const { return valueSize == size; }
};

class AttentionKernel {
protected:
  /// Whether keys and values are rows of one cache.
  bool hasOneCache() const { return in.attention.keys == in.attention.values; }

  AttentionKernel(KernelFunction &of, const AttentionMemory &in,
                  const llvm::Twine &suffix, int64_t threads);

  /// The first of the `keyRows` rows of a key, and of its value, of the KV
  /// head. Keys are counted from the attention's first key. In paged caches the
  /// key is in a page of `token` if each token has its own pages, else in a
  /// page of the text.
  mlir::Value rowOfKey(mlir::Value key, mlir::Value token = {});
  /// In paged caches with a window, and in rings: the last key up to `key`
  /// whose position is a multiple of `of`; otherwise `key`. So the keys that
  /// are computed together lie together, and do not depend on other tokens. The
  /// earlier keys exist, but are not seen.
  mlir::Value alignedKey(mlir::Value key, int64_t of);
  /// The last key up to `key` whose position is a multiple of `of`.
  mlir::Value floorOf(mlir::Value key, int64_t of);
  /// Whether alignedKey may return an earlier key. A single token of a ring has
  /// no bound in its mask: the ring's keys begin at the first that it sees.
  bool aligns() const {
    return in.page && (in.attention.areRings || !bounds.first.empty());
  }
  /// The first key that some of the tokens may see, and the one after the
  /// last.
  std::pair<mlir::Value, mlir::Value> keysSeen(mlir::Value firstToken,
                                               mlir::Value endToken);
  /// The score of a product, but for `factor`. `visible` says whether the key
  /// is between the token's bounds, and then whether the score counts. The key
  /// exists.
  mlir::Value score(mlir::Value product, mlir::Value query, mlir::Value token,
                    mlir::Value key, mlir::Value &visible);
  /// The divisor of outputs of a query head, from the sum of 2^(score - max),
  /// and of the sink, if there is one. It is not 0 for a row that sees no key,
  /// whose output is then 0.
  mlir::Value divisor(mlir::Value sum, mlir::Value max, mlir::Value query);
  /// An element of the result, in f32, of an output that has been divided.
  mlir::Value finished(mlir::Value out);

  KernelFunction &of;
  const AttentionMemory &in;
  Launch launch;
  KernelBuilder &b;
  Attention::Bounds bounds;
  /// The factor of a score, if a multiplication is the only op on it; then the
  /// schedule multiplies.
  std::optional<double> factor;
  Rows keys, values;
  mlir::Value kvHead; // of the block

private:
  // A function of the KV head and, if paged, of the page and the place in it;
  // of a ring, of the place in it.
  mlir::AffineExpr keyRow;
  Rows pages;
};

/// Whether loadWidened can read `width` results of an op on a cache's
/// elements.
bool canLoadWidened(mlir::linalg::GenericOp widened, int64_t width);
/// Numbers [column, column + width) of the key whose first row is `row`, in
/// f32: what the op makes of the cache's elements. They are all in one row.
mlir::Value loadWidened(KernelBuilder &b, mlir::linalg::GenericOp widened,
                        const Rows &cache, mlir::Value row, mlir::Value column,
                        int64_t width);

/// Whether a head's elements lie one after the other, from a multiple of
/// `width` on.
bool isContiguous(const Element &element, int64_t width);
/// Elements from a token to the next where a token's heads, of `group` queries
/// each, lie one after the other from the memory's begin on.
std::optional<int64_t> tokenStride(const Element &element, int64_t group,
                                   int64_t size);

/// Elements of a head that a lane of the scan holds: 16 bytes, or more where a
/// warp would not reach; 0 where it does not.
int64_t scanWidth(const AttentionMemory &in);

} // namespace cria::simt
