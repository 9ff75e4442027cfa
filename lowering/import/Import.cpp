/// Builds the forward pass of every family, in the order of transformers'
/// modeling_llama.py. Its parts are in the folder forward.
#include "lowering/import/Import.h"
#include "dialect/Signature.h"
#include "lowering/import/forward/Forward.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

static void declareSymbols(ModelBuilder &b, int64_t positions) {
  bool isTower = b.family.readsImages();
  if (isTower)
    declareVision(b, positions);
  else
    declareEmbedding(b);
  declareLayers(b);
  declareLastNorm(b);
  if (b.config.projector)
    declareProjector(b);
  if (isTower)
    return;
  declareHead(b);
  declareRopes(b, positions);
}

/// Declares the function and begins its body. Returns its arguments.
static Block::BlockArgListType beginForward(ModelBuilder &b,
                                            ArrayRef<Type> caches) {
  const ModelConfig &c = b.config;
  constexpr int64_t n = ShapedType::kDynamic;
  auto logits = RankedTensorType::get({n, c.vocabSize}, b.getF32Type());
  auto ids = RankedTensorType::get({n}, b.getI32Type());
  Type index = b.getIndexType(),
       hidden = b.tensorType({n, c.projector ? c.projectorOut : c.hiddenSize});
  SmallVector<Type> inputs = {ids, index, index, index},
                    results = {logits, hidden};
  if (c.seesAhead)
    inputs.push_back(index);
  inputs.append(caches.begin(), caches.end());
  results.append(caches.begin(), caches.end());
  b.at("model");
  auto forward =
      func::FuncOp::create(b, "forward", b.getFunctionType(inputs, results));
  Block *entry = forward.addEntryBlock();
  b.setInsertionPointToStart(entry);
  return entry->getArguments();
}

static void endForward(ModelBuilder &b, ValueRange results) {
  b.at("model");
  func::ReturnOp::create(b, results);
}

/// Builds a projector that is a model of its own.
static void buildProjector(ModelBuilder &b) {
  int64_t width = b.config.projectorIn;
  declareInput(b, width);
  declareProjector(b);
  auto arguments = beginForward(b, /*caches=*/{});
  Value ids = arguments[0], tokens = tensor::DimOp::create(b, ids, b.index(0));
  Value x = inputRows(b, ids);
  Value hidden = project(b, slice(b, x, tokens, arguments[3], width));
  Value logits = head(b, x, tokens, arguments[2]);
  endForward(b, {logits, hidden});
}

/// Builds a text model or a vision tower.
static void buildModel(ModelBuilder &b, const CacheSizes &caches) {
  const ModelConfig &c = b.config;
  declareSymbols(b, caches.positions);
  SmallVector<Type> types = cacheTypes(b, caches);
  auto arguments = beginForward(b, types);
  Value ids = arguments[0], tokens = tensor::DimOp::create(b, ids, b.index(0));
  Text text = {tokens,      arguments[1], c.seesAhead ? arguments[3] : Value(),
               getRopes(b), Value(),      caches.ring != 0};
  Value x = b.family.readsImages() ? embedPatches(b, ids, text.position)
                                   : embed(b, ids, text.position);
  if (c.perLayerInputSize)
    text.perLayerInputs = perLayerInputs(b, tokens, ids, x);
  SmallVector<Value> carried = {x};
  llvm::append_range(carried, arguments.take_back(types.size()));
  carried = buildLayers(b, text, caches.layers, carried);
  // The head's norm is the last reader of the hidden states, so that the norm
  // may write over them.
  Value firstHidden = arguments.drop_back(types.size()).back(),
        hidden = lastHidden(b, carried[0], tokens, firstHidden);
  if (c.projector)
    hidden = project(b, hidden);
  SmallVector<Value> results = {head(b, carried[0], tokens, arguments[2]),
                                hidden};
  results.append(carried.begin() + 1, carried.end());
  endForward(b, results);
}

static Type storageType(DType dtype, MLIRContext *context) {
  switch (dtype) {
  case DType::F32:
    return Float32Type::get(context);
  case DType::F16:
    return Float16Type::get(context);
  case DType::BF16:
    return BFloat16Type::get(context);
  }
  llvm_unreachable("unknown dtype");
}

OwningOpRef<ModuleOp> cria::importModel(const ModelConfig &config,
                                        const ImportOptions &options,
                                        MLIRContext *context) {
  context->loadDialect<arith::ArithDialect, func::FuncDialect, LlamaDialect,
                       scf::SCFDialect, tensor::TensorDialect>();
  Type type = storageType(options.dtype.value_or(config.dtype), context);
  std::optional<CacheSizes> caches = cacheSizes(config, options, type);
  if (!caches)
    return {};
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(UnknownLoc::get(context), "model");
  ModelBuilder b(config, type, *module);
  config.layers ? buildModel(b, *caches) : buildProjector(b);
  return module;
}
