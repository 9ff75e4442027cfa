/// Lowers entries and kernels to the interface between compiled code and the
/// runtime (runtime/Abi.h):
///
///   func @decode(memrefs...)  =>  func @cria_decode(ids, tokens, ..., host)
///   call @q_proj(%layer)      =>  load slots[first + layer]
///   call @experts_up(%layer)  =>  &slots[first + layer * experts], a table
///   load %up[%e, %n, %k]      =>  load table[e], a matrix, then its [n, k]
///   subview %up[%e, 0, 0]     =>  load table[e]
///   scf.forall { body }       =>  host.parallel_for(host, @body, captured, n)
///   ... { cria.range_end(%i + 1) }  =>  the end of the thread's iterations
///   call @kernel(...)         =>  host.enter(host, number), then the call
///   mpi.allreduce(%x, %x)     =>  host.all_reduce(host, x, count, type)
///
/// A cast connects each memref with its descriptor. The casts are removed when
/// the rest is converted to the LLVM dialect.
#include "dialect/Attributes.h"
#include "lowering/Passes.h"
#include "lowering/entry/Entry.h"
#include "runtime/Abi.h"

#include "mlir/Conversion/LLVMCommon/MemRefBuilder.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MPI/IR/MPI.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Utils/Utils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"

namespace cria {
#define GEN_PASS_DEF_LOWERTOABI
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

namespace {
class AbiLowering {
public:
  explicit AbiLowering(ModuleOp module)
      : module(module), symbols(module), converter(module.getContext()),
        pointer(LLVM::LLVMPointerType::get(module.getContext())),
        i64(IntegerType::get(module.getContext(), 64)) {
    for (auto [number, kernel] : llvm::enumerate(kernelFunctions(module)))
      numbers[kernel] = static_cast<int64_t>(number);
  }
  LogicalResult run();

private:
  LogicalResult lowerEntry(func::FuncOp entry, const EntryArguments &arguments);
  LogicalResult lowerSlotCalls(func::FuncOp entry, Value slots);
  LogicalResult passTable(func::CallOp read, Value table);
  LogicalResult takeTable(func::FuncOp kernel, unsigned argument);
  LogicalResult passHost(func::FuncOp entry, Value host);
  LogicalResult takeHost(func::FuncOp kernel);
  LogicalResult lowerAllReduces(func::FuncOp function, Value host);
  void announce(func::CallOp call, Operation *kernel, Value host);
  LogicalResult outlineLoops(func::FuncOp function, Value host);
  func::FuncOp outlineBody(scf::ForallOp loop, ArrayRef<Value> captured,
                           ArrayRef<Value> constants, Type context,
                           StringRef name);
  void callParallel(scf::ForallOp loop, Value host, func::FuncOp body,
                    ArrayRef<Value> captured, Type context);
  Value fromPointer(ImplicitLocOpBuilder &b, Value pointer, MemRefType type);
  Value cast(ImplicitLocOpBuilder &b, Value value, Type type);
  Value element(ImplicitLocOpBuilder &b, Value table, Value index);

  ModuleOp module;
  SymbolTable symbols;
  LLVMTypeConverter converter;
  Type pointer, i64;
  llvm::DenseMap<Operation *, int64_t> numbers; // the number of each kernel
  llvm::SetVector<Operation *> called;          // kernels that entries call
};
} // namespace

Value AbiLowering::cast(ImplicitLocOpBuilder &b, Value value, Type type) {
  if (value.getType() == type)
    return value;
  return UnrealizedConversionCastOp::create(b, type, value).getResult(0);
}

/// A contiguous memref at a bare pointer. The number of pages of a paged cache
/// is unknown, and no code reads it: the runtime checks page numbers.
Value AbiLowering::fromPointer(ImplicitLocOpBuilder &b, Value memory,
                               MemRefType type) {
  MemRefType shaped = type;
  if (type.getRank() && type.isDynamicDim(0)) {
    SmallVector<int64_t> shape(type.getShape());
    shape[0] = std::numeric_limits<int32_t>::max();
    shaped = MemRefType::Builder(type).setShape(shape);
  }
  Value descriptor = MemRefDescriptor::fromStaticShape(b, b.getLoc(), converter,
                                                       shaped, memory);
  return cast(b, descriptor, type);
}

/// Loads table[index] from a table of pointers.
Value AbiLowering::element(ImplicitLocOpBuilder &b, Value table, Value index) {
  Value at = LLVM::GEPOp::create(b, pointer, pointer, table, ValueRange{index});
  return LLVM::LoadOp::create(b, pointer, at);
}

/// The index of the expert whose numbers an op reads: a load of one number, or
/// a view of the expert's matrix. Null if the op does anything else.
static Value expertOf(Operation *op, MemRefType experts) {
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return load.getIndices().front();
  auto view = dyn_cast<memref::SubViewOp>(op);
  SmallVector<int64_t> sizes(experts.getShape());
  sizes[0] = 1;
  if (!view || view.getType().getRank() + 1 != experts.getRank() ||
      !view.hasUnitStride() || view.getStaticSizes() != ArrayRef(sizes) ||
      !areAllConstantIntValue(ArrayRef(view.getMixedOffsets()).drop_front(), 0))
    return {};
  return llvm::dyn_cast<Value>(view.getMixedOffsets()[0]);
}

/// Gives a kernel, in place of the memory (E, N, ...) of all experts, a table
/// of E pointers to matrices (N, ...). The kernel reads one expert at a time.
LogicalResult AbiLowering::takeTable(func::FuncOp kernel, unsigned number) {
  BlockArgument argument = kernel.getArgument(number);
  if (argument.getType() == pointer) // another entry calls the kernel, too
    return success();
  auto type = llvm::cast<MemRefType>(argument.getType());
  auto matrix =
      MemRefType::get(type.getShape().drop_front(), type.getElementType());
  for (Operation *user : llvm::make_early_inc_range(argument.getUsers())) {
    Value expert = expertOf(user, type);
    if (!expert)
      return user->emitOpError("expected only loads of the numbers of experts, "
                               "and views of one expert");
    ImplicitLocOpBuilder b(user->getLoc(), user);
    Value index = arith::IndexCastOp::create(b, i64, expert);
    Value read = fromPointer(b, element(b, argument, index), matrix);
    if (auto load = dyn_cast<memref::LoadOp>(user))
      read = memref::LoadOp::create(b, read, load.getIndices().drop_front());
    else
      read = memref::CastOp::create(b, user->getResult(0).getType(), read);
    user->getResult(0).replaceAllUsesWith(read);
    user->erase();
  }
  argument.setType(pointer);
  kernel.setType(FunctionType::get(kernel.getContext(),
                                   kernel.front().getArgumentTypes(),
                                   kernel.getResultTypes()));
  return success();
}

/// Passes a table of experts to the kernels that read them.
LogicalResult AbiLowering::passTable(func::CallOp read, Value table) {
  for (OpOperand &use :
       llvm::make_early_inc_range(read.getResult(0).getUses())) {
    auto call = dyn_cast<func::CallOp>(use.getOwner());
    auto kernel =
        call ? symbols.lookup<func::FuncOp>(call.getCallee()) : func::FuncOp();
    if (!kernel || kernel.isDeclaration())
      return use.getOwner()->emitOpError("expected a kernel to read experts");
    if (failed(takeTable(kernel, use.getOperandNumber())))
      return failure();
    use.set(table);
  }
  return success();
}

/// Replaces calls of the functions of weights and rope tables by loads from the
/// slot table, or, of experts, by places in it.
LogicalResult AbiLowering::lowerSlotCalls(func::FuncOp entry, Value slots) {
  WalkResult result = entry.walk([&](func::CallOp call) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!callee)
      return WalkResult::advance();
    auto what = callee->getAttrOfType<DictionaryAttr>(kWeightAttribute);
    if (!what)
      what = callee->getAttrOfType<DictionaryAttr>(kRopeAttribute);
    auto number = what ? what.getAs<IntegerAttr>("slot") : IntegerAttr();
    auto type = call.getNumResults() == 1
                    ? dyn_cast<MemRefType>(call.getResultTypes()[0])
                    : MemRefType();
    if (!number || !type)
      return WalkResult::advance();
    auto experts = what.getAs<IntegerAttr>("experts");
    if (!type.hasStaticShape() || !isContiguousMemory(type) ||
        (experts && !type.getRank())) {
      call.emitOpError("expected contiguous memory of a static shape, got ")
          << type;
      return WalkResult::interrupt();
    }
    ImplicitLocOpBuilder b(call.getLoc(), call);
    Value slot =
        arith::ConstantOp::create(b, b.getI64IntegerAttr(number.getInt()));
    if (call.getNumOperands()) {
      Value layer = arith::IndexCastOp::create(b, i64, call.getOperand(0));
      if (experts)
        layer = arith::MulIOp::create(
            b, layer,
            arith::ConstantOp::create(b,
                                      b.getI64IntegerAttr(experts.getInt())));
      slot = arith::AddIOp::create(b, slot, layer);
    }
    if (experts) {
      Value table =
          LLVM::GEPOp::create(b, pointer, pointer, slots, ValueRange{slot});
      if (failed(passTable(call, table)))
        return WalkResult::interrupt();
    } else {
      call.getResult(0).replaceAllUsesWith(
          fromPointer(b, element(b, slots, slot), type));
    }
    call.erase();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Calls the host's `enter` with the number of the kernel that is called next.
void AbiLowering::announce(func::CallOp call, Operation *kernel, Value host) {
  ImplicitLocOpBuilder b(call.getLoc(), call);
  Value number =
      arith::ConstantOp::create(b, b.getI64IntegerAttr(numbers.lookup(kernel)));
  // enter is the second field of CriaHost.
  Value at =
      LLVM::GEPOp::create(b, pointer, pointer, host, ArrayRef<LLVM::GEPArg>{1});
  Value enter = LLVM::LoadOp::create(b, pointer, at);
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), {pointer, i64});
  LLVM::CallOp::create(b, type, ValueRange{enter, host, number});
}

/// Replaces sums over ranks by calls of the host's `all_reduce`.
LogicalResult AbiLowering::lowerAllReduces(func::FuncOp function, Value host) {
  SmallVector<mpi::AllReduceOp> sums;
  function.walk([&](mpi::AllReduceOp sum) { sums.push_back(sum); });
  for (mpi::AllReduceOp sum : sums) {
    auto type = llvm::cast<MemRefType>(sum.getSendbuf().getType());
    if (sum.getSendbuf() != sum.getRecvbuf() ||
        sum.getOp() != mpi::MPI_ReductionOpEnum::MPI_SUM ||
        !type.getElementType().isF32() || type.getRank() != 1 ||
        !type.getLayout().isIdentity())
      return sum.emitOpError("expected an in-place sum of memref<?xf32>");
    ImplicitLocOpBuilder b(sum.getLoc(), sum);
    Value zero = arith::ConstantIndexOp::create(b, 0);
    Value count = arith::IndexCastOp::create(
        b, i64, memref::DimOp::create(b, sum.getSendbuf(), zero));
    Value descriptor =
        cast(b, sum.getSendbuf(), converter.convertType(Type(type)));
    Value values =
        MemRefDescriptor(descriptor).bufferPtr(b, b.getLoc(), converter, type);
    Type i32 = b.getI32Type();
    Value element =
        arith::ConstantOp::create(b, b.getI32IntegerAttr(CRIA_SUM_F32));
    // all_reduce is the third field of CriaHost.
    Value at = LLVM::GEPOp::create(b, pointer, pointer, host,
                                   ArrayRef<LLVM::GEPArg>{2});
    Value allReduce = LLVM::LoadOp::create(b, pointer, at);
    auto signature = LLVM::LLVMFunctionType::get(
        LLVM::LLVMVoidType::get(b.getContext()), {pointer, pointer, i64, i32});
    LLVM::CallOp::create(b, signature,
                         ValueRange{allReduce, host, values, count, element});
    Value world = sum.getComm();
    sum.erase();
    if (world.use_empty())
      world.getDefiningOp()->erase();
  }
  return success();
}

/// Passes the host to the kernels that an entry calls, and outlines its
/// parallel loops.
LogicalResult AbiLowering::passHost(func::FuncOp entry, Value host) {
  WalkResult result = entry.walk([&](func::CallOp call) {
    Operation *kernel = symbols.lookup(call.getCallee());
    if (!numbers.contains(kernel)) {
      call.emitOpError("expected a call of a kernel, or of a weight or rope "
                       "table that has a slot");
      return WalkResult::interrupt();
    }
    announce(call, kernel, host);
    call.getOperandsMutable().append(host);
    called.insert(kernel);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted() || failed(outlineLoops(entry, host)));
}

/// Gives a kernel the host, and outlines its parallel loops.
LogicalResult AbiLowering::takeHost(func::FuncOp kernel) {
  // A kernel is not inlined, so that debuggers and profilers find its symbol.
  kernel->setAttr("passthrough", Builder(kernel).getStrArrayAttr({"noinline"}));
  kernel->removeAttr(kChunkAttribute);
  kernel->removeAttr(kInvariantAttribute);
  unsigned last = kernel.getNumArguments();
  (void)kernel.insertArgument(last, pointer, {}, kernel.getLoc());
  Value host = kernel.getArgument(last);
  return failure(failed(lowerAllReduces(kernel, host)) ||
                 failed(outlineLoops(kernel, host)));
}

LogicalResult AbiLowering::outlineLoops(func::FuncOp function, Value host) {
  SmallVector<scf::ForallOp> loops;
  function.walk([&](scf::ForallOp loop) { loops.push_back(loop); });
  IRRewriter rewriter(module.getContext());
  for (auto [i, each] : llvm::enumerate(loops)) {
    FailureOr<scf::ForallOp> normal = normalizeForallOp(rewriter, each);
    if (failed(normal))
      return each.emitOpError("expected bounds that can be normalized");
    scf::ForallOp loop = *normal;
    llvm::SetVector<Value> used;
    getUsedValuesDefinedAbove(loop.getRegion(), used);
    used.insert_range(loop.getDynamicUpperBound());
    SmallVector<Value> captured, constants;
    SmallVector<Type> fields;
    for (Value value : used) {
      bool constant = matchPattern(value, m_Constant());
      (constant ? constants : captured).push_back(value);
      if (!constant)
        fields.push_back(converter.convertType(value.getType()));
      if (!constant && !fields.back())
        return loop.emitOpError("expected to read memrefs and numbers, got ")
               << value.getType();
    }
    if (loop.getNumResults())
      return loop.emitOpError("expected no results");
    Type context =
        LLVM::LLVMStructType::getLiteral(module.getContext(), fields);
    std::string name = (function.getName() + "." + std::to_string(i)).str();
    func::FuncOp body = outlineBody(loop, captured, constants, context, name);
    callParallel(loop, host, body, captured, context);
    loop.erase();
  }
  return success();
}

/// The op with the end of an iteration that may be a range of them; null if the
/// loop has none (VectorBuilder::parallelRanges).
static LLVM::InlineAsmOp rangeEnd(scf::ForallOp loop) {
  if (loop.getRank() != 1)
    return {};
  for (auto end : loop.getBody()->getOps<LLVM::InlineAsmOp>())
    if (end->hasAttr(kRangeEndAttribute))
      return end;
  return {};
}

/// Builds a loop over i from begin to end with the body of `loop`, then a
/// return. The induction variables of `loop` are computed from i; the last one
/// varies fastest. If an iteration may be a range of them, there is one, and no
/// loop.
static void cloneIterations(ImplicitLocOpBuilder &b, scf::ForallOp loop,
                            Block *entry, IRMapping &mapping) {
  if (LLVM::InlineAsmOp end = rangeEnd(loop)) {
    mapping.map(
        loop.getInductionVar(0),
        arith::IndexCastOp::create(b, b.getIndexType(), entry->getArgument(1))
            .getResult());
    for (Operation &op : loop.getBody()->without_terminator()) {
      if (&op == end)
        mapping.map(end.getRes(), entry->getArgument(2));
      else if (!isa<memref::AllocaOp>(op))
        b.clone(op, mapping);
    }
    func::ReturnOp::create(b);
    return;
  }
  Type index = b.getIndexType();
  auto range = scf::ForOp::create(
      b, arith::IndexCastOp::create(b, index, entry->getArgument(1)),
      arith::IndexCastOp::create(b, index, entry->getArgument(2)),
      arith::ConstantIndexOp::create(b, 1));
  func::ReturnOp::create(b);

  b.setInsertionPoint(range.getBody()->getTerminator());
  Value rest = range.getInductionVar();
  for (unsigned i = loop.getRank(); i-- > 0;) {
    Value size = getValueOrCreateConstantIndexOp(b, b.getLoc(),
                                                 loop.getMixedUpperBound()[i]);
    size = mapping.lookupOrDefault(size);
    Value iv = rest;
    if (i > 0) {
      iv = arith::RemUIOp::create(b, rest, size);
      rest = arith::DivUIOp::create(b, rest, size);
    }
    mapping.map(loop.getInductionVar(i), iv);
  }
  for (Operation &op : loop.getBody()->without_terminator())
    if (!isa<memref::AllocaOp>(op))
      b.clone(op, mapping);
}

/// func @name(context, begin, end): iterations [begin, end) of the loop.
func::FuncOp AbiLowering::outlineBody(scf::ForallOp loop,
                                      ArrayRef<Value> captured,
                                      ArrayRef<Value> constants, Type context,
                                      StringRef name) {
  OpBuilder outer(loop->getParentOfType<func::FuncOp>());
  auto function =
      func::FuncOp::create(outer, loop.getLoc(), name,
                           outer.getFunctionType({pointer, i64, i64}, {}));
  function.setPrivate();
  symbols.insert(function);
  Block *entry = function.addEntryBlock();
  ImplicitLocOpBuilder b(loop.getLoc(), outer);
  b.setInsertionPointToStart(entry);
  IRMapping mapping;
  for (Value constant : constants)
    mapping.map(constant, b.clone(*constant.getDefiningOp())->getResult(0));
  for (auto [i, value] : llvm::enumerate(captured)) {
    Type type = converter.convertType(value.getType());
    Value at =
        LLVM::GEPOp::create(b, pointer, context, entry->getArgument(0),
                            ArrayRef<LLVM::GEPArg>{0, static_cast<int32_t>(i)});
    mapping.map(value,
                cast(b, LLVM::LoadOp::create(b, type, at), value.getType()));
  }
  for (auto alloca :
       llvm::make_early_inc_range(loop.getBody()->getOps<memref::AllocaOp>()))
    mapping.map(alloca.getResult(), b.clone(*alloca)->getResult(0));
  cloneIterations(b, loop, entry, mapping);
  return function;
}

void AbiLowering::callParallel(scf::ForallOp loop, Value host,
                               func::FuncOp body, ArrayRef<Value> captured,
                               Type context) {
  ImplicitLocOpBuilder b(loop.getLoc(), loop);
  Value count = arith::ConstantIndexOp::create(b, 1);
  for (OpFoldResult size : loop.getMixedUpperBound())
    count = b.createOrFold<arith::MulIOp>(
        count, getValueOrCreateConstantIndexOp(b, b.getLoc(), size));
  count = arith::IndexCastOp::create(b, i64, count);
  Value frame;
  {
    OpBuilder::InsertionGuard guard(b);
    auto function = loop->getParentOfType<func::FuncOp>();
    b.setInsertionPointToStart(&function.front());
    Value one = arith::ConstantOp::create(b, b.getI64IntegerAttr(1));
    frame = LLVM::AllocaOp::create(b, pointer, context, one);
  }
  for (auto [i, value] : llvm::enumerate(captured)) {
    Value at =
        LLVM::GEPOp::create(b, pointer, context, frame,
                            ArrayRef<LLVM::GEPArg>{0, static_cast<int32_t>(i)});
    Type type = converter.convertType(value.getType());
    LLVM::StoreOp::create(b, cast(b, value, type), at);
  }
  Value function = func::ConstantOp::create(
      b, body.getFunctionType(), FlatSymbolRefAttr::get(body.getSymNameAttr()));
  // parallel_for is the first field of CriaHost.
  Value parallelFor = LLVM::LoadOp::create(b, pointer, host);
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  {pointer, pointer, pointer, i64});
  LLVM::CallOp::create(
      b, type,
      ValueRange{parallelFor, host, cast(b, function, pointer), frame, count});
}

/// The arguments of a CriaEntry, in order. Slots and host follow.
static constexpr EntryArgument kArguments[] = {
    EntryArgument::Ids,    EntryArgument::Tokens,      EntryArgument::Position,
    EntryArgument::First,  EntryArgument::FirstHidden, EntryArgument::Source,
    EntryArgument::Logits, EntryArgument::Hidden,      EntryArgument::Cache,
    EntryArgument::Arena};
/// The arguments of a CriaBatchEntry, in order. Slots and host follow.
static constexpr EntryArgument kBatchArguments[] = {
    EntryArgument::Ids,    EntryArgument::Tokens,      EntryArgument::Positions,
    EntryArgument::Pages,  EntryArgument::WindowPages, EntryArgument::States,
    EntryArgument::First,  EntryArgument::FirstHidden, EntryArgument::Source,
    EntryArgument::Logits, EntryArgument::Hidden,      EntryArgument::Cache,
    EntryArgument::Arena};

/// Replaces the entry's arguments by those of CriaEntry, or, over paged caches,
/// of CriaBatchEntry. The position of @prefill over paged caches is the first
/// of the positions.
LogicalResult AbiLowering::lowerEntry(func::FuncOp entry,
                                      const EntryArguments &arguments) {
  Block &body = entry.front();
  unsigned old = body.getNumArguments();
  bool isPaged = arguments.has(EntryArgument::Pages);
  ArrayRef<EntryArgument> places = kArguments;
  if (isPaged)
    places = kBatchArguments;
  auto isNumber = [&](EntryArgument what) {
    return what == EntryArgument::Tokens || what == EntryArgument::Position ||
           what == EntryArgument::First || what == EntryArgument::FirstHidden ||
           what == EntryArgument::Source;
  };
  SmallVector<Type> types =
      llvm::map_to_vector(places, [&](EntryArgument what) {
        return isNumber(what) ? i64 : pointer;
      });
  types.append(2, pointer); // slots, host
  SmallVector<Value> args;
  for (Type type : types)
    args.push_back(body.addArgument(type, entry.getLoc()));
  ImplicitLocOpBuilder b(entry.getLoc(), entry.getContext());
  b.setInsertionPointToStart(&body);
  int64_t caches = 0;
  for (auto [what, argument] :
       llvm::zip(arguments.all(), body.getArguments().take_front(old))) {
    bool isFirst = isPaged && what == EntryArgument::Position;
    Value value =
        args[llvm::find(places, isFirst ? EntryArgument::Positions : what) -
             places.begin()];
    if (isFirst)
      value = LLVM::LoadOp::create(b, b.getI32Type(), value);
    if (what == EntryArgument::Cache)
      value =
          element(b, value,
                  arith::ConstantOp::create(b, b.getI64IntegerAttr(caches++)));
    if (auto type = dyn_cast<MemRefType>(argument.getType()))
      value = fromPointer(b, value, type);
    else
      value = arith::IndexCastOp::create(b, b.getIndexType(), value);
    argument.replaceAllUsesWith(value);
  }
  body.eraseArguments(0, old);
  entry.setType(b.getFunctionType(types, {}));
  if (failed(lowerSlotCalls(entry, body.getArgument(places.size()))) ||
      failed(passHost(entry, body.getArgument(places.size() + 1))))
    return failure();
  for (StringRef name : {kArgumentsAttribute, kChunkAttribute,
                         kArenaBytesAttribute, kInvariantAttribute})
    entry->removeAttr(name);
  return symbols.rename(entry, b.getStringAttr("cria_" + entry.getName()));
}

LogicalResult AbiLowering::run() {
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>())) {
    if (!isEntry(function))
      continue;
    FailureOr<EntryArguments> arguments = EntryArguments::of(function);
    if (failed(arguments))
      return failure();
    if (failed(verifyMemory(function)))
      return failure();
    if (arguments->drawsId())
      return function.emitError("expected an entry that runs tokens: the "
                                "runtime draws ids on the CPU itself");
    if (failed(lowerEntry(function, *arguments)))
      return failure();
  }
  for (Operation *kernel : called)
    if (failed(takeHost(llvm::cast<func::FuncOp>(kernel))))
      return failure();
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (function->hasAttr(kWeightAttribute) ||
        function->hasAttr(kRopeAttribute))
      function.erase();
  return success();
}

namespace {
struct LowerToAbi : cria::impl::LowerToAbiBase<LowerToAbi> {
  void runOnOperation() override {
    if (failed(AbiLowering(getOperation()).run()))
      signalPassFailure();
  }
};
} // namespace
