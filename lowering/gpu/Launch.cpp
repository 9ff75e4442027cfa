#include "lowering/gpu/Launch.h"

#include "runtime/Abi.h"

#include <cstddef>
#include <numeric>

using namespace mlir;
using namespace cria::cuda;

int64_t cria::cuda::rowSize(Value tensor) {
  int64_t size = 1;
  for (int64_t dim :
       cast<RankedTensorType>(tensor.getType()).getShape().drop_front())
    size *= dim;
  return size;
}

int64_t cria::cuda::accessWidth(Type element, int64_t columns) {
  return std::gcd<int64_t>(columns, 128 / element.getIntOrFloatBitWidth());
}

Value Launch::base(DictionaryAttr arg, MemRefType type) {
  Value &param = params[{arg, type.getElementType()}];
  if (!param)
    param = b.addParam(type);
  return param;
}

Value Launch::field(int64_t offset, Type type) {
  Value state =
      base(b.getDictionaryAttr(b.getNamedAttr("state", b.getI64IntegerAttr(0))),
           MemRefType::get({sizeof(CriaStepState)}, b.getI8Type()));
  return b.loadField(state, offset, type);
}

Value Launch::position() {
  return field(offsetof(CriaStepState, position), b.getI32Type());
}
Value Launch::tokens() {
  return field(offsetof(CriaStepState, tokens), b.getI32Type());
}
Value Launch::source() {
  return field(offsetof(CriaStepState, source), b.getI32Type());
}
Value Launch::firstLogit() {
  return field(offsetof(CriaStepState, first_logit), b.getI32Type());
}

Rows Launch::rows(Place place, MemRefType type, int64_t stride) {
  Rows rows{base(place.arg, type), type.getElementType(), stride};
  if (place.fromFirstLogit)
    rows.offset = b.element(rows, firstLogit());
  return rows;
}

Rows Launch::rows(Place place, Type element, int64_t stride) {
  SmallVector<int64_t> shape = {ShapedType::kDynamic};
  if (stride > 1)
    shape.push_back(stride);
  return rows(place, MemRefType::get(shape, element), stride);
}

Rows Launch::rows(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  Place place = places.placeOf(tensor);
  Type element = place.element ? place.element : type.getElementType();
  return rows(place, MemRefType::get(type.getShape(), element),
              type.getRank() == 1 ? type.getDimSize(0) : rowSize(tensor));
}

Rows Launch::cache(Value cache, Value layer) {
  auto type = cast<RankedTensorType>(cache.getType());
  return rows(
      places.cachePlace(cache, layer),
      MemRefType::get(type.getShape().drop_front(), type.getElementType()),
      type.getDimSize(3));
}

Value Launch::extent(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(0))
    return b.i32(type.getDimSize(0));
  if (places.rowsOf(tensor) == Extent::Tokens)
    return tokens();
  return b.sub(tokens(), firstLogit());
}

Dim Launch::gridOf(Value tensor, int64_t perBlock) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(0))
    return {(type.getDimSize(0) + perBlock - 1) / perBlock, {}};
  return {perBlock, places.rowsOf(tensor)};
}

DictionaryAttr Launch::finish(ArrayRef<Dim> grid) {
  b.finish();
  SmallVector<Attribute> dims, args;
  for (Dim dim : grid) {
    Attribute size = b.getI64IntegerAttr(dim.size);
    if (dim.of)
      size = b.getDictionaryAttr(b.getNamedAttr(
          *dim.of == Extent::Tokens ? "tokens" : "logits", size));
    dims.push_back(size);
  }
  while (dims.size() < 3)
    dims.push_back(b.getI64IntegerAttr(1));
  for (auto &[key, param] : params)
    args.push_back(key.first);
  auto one = b.getI64IntegerAttr(1);
  return b.getDictionaryAttr(
      {b.getNamedAttr("launch", b.getStringAttr(name)),
       b.getNamedAttr("grid", b.getArrayAttr(dims)),
       b.getNamedAttr("block", b.getArrayAttr({b.getI64IntegerAttr(b.threads()),
                                               one, one})),
       b.getNamedAttr("shared", b.getI64IntegerAttr(0)),
       b.getNamedAttr("args", b.getArrayAttr(args))});
}
