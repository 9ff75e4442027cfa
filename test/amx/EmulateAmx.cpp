/// amx.tile_mulf, amx.tile_muli  =>  linalg.generic
///
/// emulate-amx: runs the schedules for AMX (lowering/cpu/Amx.cpp and others) on
/// a CPU without AMX. A tile becomes a buffer in memory. Each run of the op
/// that makes the tile overwrites the buffer. This is correct if loops carry
/// only sums, as the loops of these schedules do.
///
/// The tool is mlir-opt with two more options:
/// - --emulate-amx is the pass.
/// - --tile-with-emulated-amx takes a text from linalg to tile, with schedules
///   for AMX and code for x86-64-v3.
#include "lowering/Compilation.h"
#include "lowering/Passes.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;
using namespace cria;

/// A buffer for a tile, outside of all loops except the parallel one.
static Value bufferOf(Operation *op, ConversionPatternRewriter &rewriter,
                      ArrayRef<int64_t> shape) {
  auto tile = cast<amx::TileType>(op->getResult(0).getType());
  auto type = MemRefType::get(shape, tile.getElementType());
  OpBuilder::InsertionGuard guard(rewriter);
  if (auto loop = op->getParentOfType<scf::ForallOp>())
    rewriter.setInsertionPointToStart(loop.getBody());
  else
    rewriter.setInsertionPointToStart(
        &op->getParentOfType<func::FuncOp>().front());
  return memref::AllocaOp::create(rewriter, op->getLoc(), type,
                                  rewriter.getI64IntegerAttr(64));
}

static void fillWithZero(OpBuilder &b, Location loc, Value buffer) {
  Type element = cast<MemRefType>(buffer.getType()).getElementType();
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(element));
  linalg::FillOp::create(b, loc, zero, buffer);
}

/// A view of base[indices ...] as a tile: the tile's rows are those of the
/// second to last dimension.
static Value viewOf(OpBuilder &b, Location loc, Value base, ValueRange indices,
                    amx::TileType tile) {
  auto type = cast<MemRefType>(base.getType());
  SmallVector<OpFoldResult> one(type.getRank(), b.getIndexAttr(1)), sizes(one);
  for (int64_t i = 0; i < 2; ++i)
    sizes[type.getRank() - 2 + i] = b.getIndexAttr(tile.getDimSize(i));
  SmallVector<OpFoldResult> offsets = getAsOpFoldResult(indices);
  auto view = memref::SubViewOp::inferRankReducedResultType(
      tile.getShape(), type, offsets, sizes, one);
  return memref::SubViewOp::create(b, loc, view, base, offsets, sizes, one);
}

/// Reshapes a tile (m, k) to (m, k / size, size).
static Value inGroups(OpBuilder &b, Location loc, Value tile, int64_t size) {
  auto type = cast<MemRefType>(tile.getType());
  SmallVector<int64_t> shape = {type.getDimSize(0), type.getDimSize(1) / size,
                                size};
  return memref::ExpandShapeOp::create(
      b, loc, shape, tile, ArrayRef<ReassociationIndices>{{0}, {1, 2}});
}

/// out += the product of all inputs, in f32 or i32.
static void emitSum(OpBuilder &b, Location loc, ValueRange inputs, Value out,
                    ArrayRef<AffineMap> maps) {
  SmallVector<utils::IteratorType> loops;
  for (unsigned i = 0; i < maps.back().getNumDims(); ++i)
    loops.push_back(maps.back().isFunctionOfDim(i)
                        ? utils::IteratorType::parallel
                        : utils::IteratorType::reduction);
  linalg::GenericOp::create(
      b, loc, inputs, out, maps, loops,
      [](OpBuilder &b, Location loc, ValueRange values) {
        Value product, sum = values.back();
        bool isInteger = sum.getType().isInteger();
        for (Value value : values.drop_back()) {
          if (isInteger)
            value = arith::ExtSIOp::create(b, loc, sum.getType(), value);
          else if (!value.getType().isF32())
            value = arith::ExtFOp::create(b, loc, b.getF32Type(), value);
          if (!product)
            product = value;
          else if (isInteger)
            product = arith::MulIOp::create(b, loc, product, value);
          else
            product = arith::MulFOp::create(b, loc, product, value);
        }
        if (isInteger)
          sum = arith::AddIOp::create(b, loc, sum, product);
        else
          sum = arith::AddFOp::create(b, loc, sum, product,
                                      arith::FastMathFlags::reassoc);
        linalg::YieldOp::create(b, loc, sum);
      });
}

namespace {
struct EmulateZero : OpConversionPattern<amx::TileZeroOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(amx::TileZeroOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Value buffer = bufferOf(op, rewriter, op.getTileType().getShape());
    fillWithZero(rewriter, op.getLoc(), buffer);
    rewriter.replaceOp(op, buffer);
    return success();
  }
};

struct EmulateLoad : OpConversionPattern<amx::TileLoadOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(amx::TileLoadOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (op.getStride())
      return rewriter.notifyMatchFailure(op, "has a stride of its own");
    Value buffer = bufferOf(op, rewriter, op.getTileType().getShape());
    Value view = viewOf(rewriter, op.getLoc(), adaptor.getBase(),
                        adaptor.getIndices(), op.getTileType());
    memref::CopyOp::create(rewriter, op.getLoc(), view, buffer);
    rewriter.replaceOp(op, buffer);
    return success();
  }
};

struct EmulateStore : OpConversionPattern<amx::TileStoreOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(amx::TileStoreOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (op.getStride())
      return rewriter.notifyMatchFailure(op, "has a stride of its own");
    Value view = viewOf(rewriter, op.getLoc(), adaptor.getBase(),
                        adaptor.getIndices(), op.getTileType());
    rewriter.replaceOpWithNewOp<memref::CopyOp>(op, adaptor.getVal(), view);
    return success();
  }
};

/// Adds the products of even and of odd k separately, and adds both to the sum
/// at the end, as the CPU does.
///
///   products[m, n, e] = sum_p lhs[m, 2 p + e] * rhs[p, 2 n + e]
///   res[m, n] = acc[m, n] + sum_e products[m, n, e]
struct EmulateProduct : OpConversionPattern<amx::TileMulFOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(amx::TileMulFOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto type = op.getTileType();
    Value buffer = bufferOf(op, rewriter, type.getShape());
    Value products =
        bufferOf(op, rewriter, {type.getDimSize(0), type.getDimSize(1), 2});
    auto pairs = [&](Value tile) { return inGroups(rewriter, loc, tile, 2); };
    AffineExpr m, n, e, p;
    bindDims(getContext(), m, n, e, p);
    auto map = [&](unsigned dims, ArrayRef<AffineExpr> of) {
      return AffineMap::get(dims, 0, of, getContext());
    };
    fillWithZero(rewriter, loc, products);
    emitSum(rewriter, loc, {pairs(adaptor.getLhs()), pairs(adaptor.getRhs())},
            products,
            {map(4, {m, p, e}), map(4, {p, n, e}), map(4, {m, n, e})});
    memref::CopyOp::create(rewriter, loc, adaptor.getAcc(), buffer);
    emitSum(rewriter, loc, products, buffer,
            {map(3, {m, n, e}), map(3, {m, n})});
    rewriter.replaceOp(op, buffer);
    return success();
  }
};

/// res[m, n] = acc[m, n] + sum_p,e lhs[m, 4 p + e] * rhs[p, 4 n + e]
struct EmulateIntegerProduct : OpConversionPattern<amx::TileMulIOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(amx::TileMulIOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (op.getIsZextLhs() || op.getIsZextRhs())
      return rewriter.notifyMatchFailure(op, "multiplies unsigned integers");
    Location loc = op.getLoc();
    Value buffer = bufferOf(op, rewriter, op.getTileType().getShape());
    memref::CopyOp::create(rewriter, loc, adaptor.getAcc(), buffer);
    AffineExpr m, n, p, e;
    bindDims(getContext(), m, n, p, e);
    auto map = [&](ArrayRef<AffineExpr> of) {
      return AffineMap::get(4, 0, of, getContext());
    };
    emitSum(rewriter, loc,
            {inGroups(rewriter, loc, adaptor.getLhs(), 4),
             inGroups(rewriter, loc, adaptor.getRhs(), 4)},
            buffer, {map({m, p, e}), map({p, n, e}), map({m, n})});
    rewriter.replaceOp(op, buffer);
    return success();
  }
};

struct EmulateAmx : PassWrapper<EmulateAmx, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(EmulateAmx)

  StringRef getArgument() const override { return "emulate-amx"; }
  StringRef getDescription() const override {
    return "lower AMX to linalg on buffers";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, linalg::LinalgDialect,
                    memref::MemRefDialect>();
  }

  void runOnOperation() override {
    TypeConverter converter;
    converter.addConversion([](Type type) { return type; });
    converter.addConversion([](amx::TileType tile) {
      return MemRefType::get(tile.getShape(), tile.getElementType());
    });
    RewritePatternSet patterns(&getContext());
    patterns.add<EmulateZero, EmulateLoad, EmulateStore, EmulateProduct,
                 EmulateIntegerProduct>(converter, &getContext());
    ConversionTarget target(getContext());
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    target.addIllegalDialect<amx::AMXDialect>();
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                         target);
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

static void buildTile(OpPassManager &pm) {
  PipelineOptions options;
  options.cpu = llvm::cantFail(selectCpu("x86-64-v3"));
  // Without vpdpbusd, which x86-64-v3 lacks.
  options.cpu.unit = llvm::cantFail(selectCpu("sapphirerapids")).unit;
  options.cpu.unit.dotBytes = false;
  buildPhase(pm, Phase::Tile, options);
  pm.addNestedPass<func::FuncOp>(std::make_unique<EmulateAmx>());
  pm.addNestedPass<func::FuncOp>(createLowerToLoops());
}

int main(int argc, char **argv) {
  DialectRegistry registry;
  registerCompilerDialects(registry);
  PassRegistration<EmulateAmx>();
  PassPipelineRegistration<> tile("tile-with-emulated-amx",
                                  "from linalg to tile, with AMX as loops",
                                  buildTile);
  return asMainReturnCode(
      MlirOptMain(argc, argv, "mlir-opt with emulated AMX\n", registry));
}
