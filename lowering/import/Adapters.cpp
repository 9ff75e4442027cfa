#include "lowering/import/Adapters.h"
#include "dialect/Dialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// The location of a weight, such as "model.layers.*.self_attn.q_proj",
/// followed by `matrix`.
static Location locationOf(WeightOp weight, StringRef matrix) {
  auto path = weight.getLoc()->findInstanceOf<NameLoc>();
  if (!path)
    return weight.getLoc();
  return NameLoc::get(StringAttr::get(weight.getContext(),
                                      path.getName().strref() + "." + matrix));
}

/// The matrix `lora_A` or `lora_B` of `weight`. It is declared after the
/// weight, unless it is already declared.
static WeightOp declare(WeightOp weight, StringRef matrix,
                        RankedTensorType type) {
  auto module = weight->getParentOfType<ModuleOp>();
  std::string symbol = (weight.getSymName() + "_" + matrix.lower()).str();
  if (auto declared = module.lookupSymbol<WeightOp>(symbol))
    return declared;
  OpBuilder b(weight->getContext());
  b.setInsertionPointAfter(weight);
  StringRef front = weight.getSource().drop_back(strlen("weight"));
  return WeightOp::create(
      b, locationOf(weight, matrix), symbol, weight.getCountAttr(), type,
      (front + matrix + ".weight").str(), /*first_row=*/IntegerAttr(),
      /*source_rows=*/IntegerAttr(), weight.getFirst(), /*adapter=*/true,
      /*tied=*/FlatSymbolRefAttr(), /*slot=*/IntegerAttr(),
      /*split=*/SplitAttr(), /*sym_visibility=*/StringAttr(),
      weight.getLayersAttr());
}

static LogicalResult addAdapter(LinearOp linear, int64_t rank) {
  auto get = linear.getWeight().getDefiningOp<GetWeightOp>();
  auto module = linear->getParentOfType<ModuleOp>();
  auto weight =
      get ? module.lookupSymbol<WeightOp>(get.getWeight()) : WeightOp();
  if (!weight || !weight.getSource().ends_with(".weight"))
    return linear.emitError("expected a weight whose name ends in '.weight', "
                            "for adapters to be added");
  RankedTensorType type = weight.getTensorType();
  // Adapters have the type of the linear's result, because the weight may be
  // quantized.
  auto matrix = [&](int64_t rows, int64_t columns) {
    return linear.getResult().getType().clone({rows, columns});
  };
  WeightOp b = declare(weight, "lora_B", matrix(type.getDimSize(0), rank));
  WeightOp a = declare(weight, "lora_A", matrix(rank, type.getDimSize(1)));
  if (auto row = weight.getFirstRowAttr()) {
    b.setFirstRowAttr(row);
    b.setSourceRowsAttr(weight.getSourceRowsAttr());
  }
  OpBuilder builder(linear->getContext());
  builder.setInsertionPointAfter(linear);
  Value x = linear.getInput();
  for (WeightOp factor : {a, b}) {
    Value value =
        GetWeightOp::create(builder, factor.getLoc(), factor.getTensorType(),
                            factor.getSymName(), get.getLayer());
    x = LinearOp::create(builder, factor.getLoc(), x, value, /*bias=*/Value());
  }
  auto sum = ResidualOp::create(builder, b.getLoc(), linear.getResult(), x,
                                /*scale=*/1.0);
  linear.getResult().replaceAllUsesExcept(sum, sum);
  return success();
}

LogicalResult cria::addAdapters(ModuleOp module, int64_t rank) {
  SmallVector<LinearOp> linears;
  // Routers have none: their logits are not of the model's type.
  module.walk([&](LinearOp linear) {
    if (!linear.getAs())
      linears.push_back(linear);
  });
  for (LinearOp linear : linears)
    if (failed(addAdapter(linear, rank)))
      return failure();
  return success();
}
