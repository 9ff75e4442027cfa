#include "lowering/gpu/build/KernelBuilder.h"
#include "lowering/gpu/build/Chips.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace cria::simt;

/// Products and sums may contract to fused ones; no other rule is relaxed.
static constexpr auto kContract = arith::FastMathFlags::contract;

/// Indices do not wrap, so constants in them become offsets of an address.
static constexpr auto kNoWrap = arith::IntegerOverflowFlags::nsw;

/// The numbers of NVPTX's address spaces.
static constexpr unsigned kGeneric = 0, kGlobal = 1, kShared = 3;
/// The size that a kernel assumes for memory of unknown size.
static constexpr int64_t kManyElements = int64_t(1) << 48;

std::optional<std::pair<int64_t, int64_t>>
cria::simt::generationsOf(Operation *kernel) {
  Attribute own = kernel->getAttr(kGenerationsAttribute);
  if (!own)
    return std::pair<int64_t, int64_t>(0, kGenerations - 1);
  auto list = dyn_cast<ArrayAttr>(own);
  if (!list || list.empty())
    return std::nullopt;
  auto first = dyn_cast<IntegerAttr>(list[0]);
  int64_t begin = first && first.getType().isInteger(64) ? first.getInt() : -1;
  if (begin < 0 || begin >= kGenerations)
    return std::nullopt;
  int64_t end = begin + static_cast<int64_t>(list.size());
  auto all = llvm::to_vector(llvm::seq(begin, end));
  if (end > kGenerations || list != Builder(kernel).getI64ArrayAttr(all))
    return std::nullopt;
  return std::pair(begin, end - 1);
}

KernelBuilder::KernelBuilder(Location loc, Block &module, StringRef name,
                             int64_t threads)
    : LoopBuilder(loc, OpBuilder::atBlockEnd(&module), kNoWrap),
      blockThreads(threads) {
  function = create<gpu::GPUFuncOp>(name, getFunctionType({}, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), getUnitAttr());
  function.setKnownBlockSizeAttr(
      getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));
  setInsertionPointToStart(&function.front());
}

void KernelBuilder::finish() {
  create<gpu::ReturnOp>();
  markReadOnly();
}

/// Marks parameters that NVPTX may load through the read-only path.
void KernelBuilder::markReadOnly() {
  for (auto [i, param] : llvm::enumerate(params)) {
    auto access = accesses.find(param);
    if (access == accesses.end() || access->second != Access::ReadOnly)
      continue;
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                        getUnitAttr());
    function.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(),
                        getUnitAttr());
  }
}

Value KernelBuilder::addArgument(Type type) {
  unsigned last = function.getNumArguments();
  (void)function.insertArgument(last, type, {}, getLoc());
  return function.getArgument(last);
}

Value KernelBuilder::addNumber() {
  params.push_back(addArgument(getIndexType()));
  return params.back();
}

Value KernelBuilder::setTensorMap(Value param, const TensorMap &map) {
  auto argument = dyn_cast<BlockArgument>(param);
  if (!argument) {
    // The op stays without uses, because Rows name its result.
    Operation *collapse = param.getDefiningOp();
    argument = cast<BlockArgument>(collapse->getOperand(0));
    llvm::replace(params, param, Value(argument));
  }
  auto numbers = [&](StringRef name, ArrayRef<int64_t> values) {
    return getNamedAttr(name, getI64ArrayAttr(values));
  };
  function.setArgAttr(
      argument.getArgNumber(), kTensorMapAttribute,
      getDictionaryAttr({numbers("box", map.box), numbers("sizes", map.sizes),
                         numbers("strides", map.strides)}));
  return argument;
}

/// The memory from a memref's first element on, as a memref of one dimension.
Value KernelBuilder::allElements(Value memref) {
  OpFoldResult zero = getIndexAttr(0), one = getIndexAttr(1),
               many = create<arith::ConstantIndexOp>(kManyElements).getResult();
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  return create<memref::ReinterpretCastOp>(
      MemRefType::get({ShapedType::kDynamic}, element), memref, zero,
      ArrayRef(many), ArrayRef(one));
}

Value KernelBuilder::addParam(MemRefType type) {
  Value param = addArgument(type);
  if (type.getRank() > 1) {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToStart(&function.front());
    ReassociationIndices all =
        llvm::to_vector<2>(llvm::seq<int64_t>(0, type.getRank()));
    if (memref::CollapseShapeOp::isGuaranteedCollapsible(type, {all}))
      param = create<memref::CollapseShapeOp>(
          param, SmallVector<ReassociationIndices>{all});
    else
      param = allElements(param);
  }
  params.push_back(param);
  return param;
}

Value KernelBuilder::block(unsigned dim) {
  return create<arith::IndexCastOp>(
      getI32Type(), create<gpu::BlockIdOp>(static_cast<gpu::Dimension>(dim)));
}

Value KernelBuilder::blocks(unsigned dim) {
  return create<arith::IndexCastOp>(
      getI32Type(), create<gpu::GridDimOp>(static_cast<gpu::Dimension>(dim)));
}

Value KernelBuilder::thread() {
  return create<arith::IndexCastOp>(getI32Type(),
                                    create<gpu::ThreadIdOp>(gpu::Dimension::x));
}

Value KernelBuilder::lane() { return rem(thread(), kWarp); }
Value KernelBuilder::warp() { return div(thread(), kWarp); }

Value KernelBuilder::i32(int64_t value) {
  return create<arith::ConstantIntOp>(getI32Type(), value);
}

Value KernelBuilder::exclusiveOr(Value a, Value b) {
  return createOrFold<arith::XOrIOp>(a, b);
}
Value KernelBuilder::both(Value a, Value b) {
  return createOrFold<arith::AndIOp>(a, b);
}
Value KernelBuilder::select(Value condition, Value a, Value b) {
  return createOrFold<arith::SelectOp>(condition, a, b);
}

Value KernelBuilder::f32(double value) {
  return create<arith::ConstantOp>(getF32FloatAttr(static_cast<float>(value)));
}
Value KernelBuilder::splat(Value value, int64_t lanes) {
  if (lanes == 1)
    return value;
  return create<vector::BroadcastOp>(VectorType::get({lanes}, value.getType()),
                                     value);
}
Value KernelBuilder::fadd(Value a, Value b) {
  return create<arith::AddFOp>(a, b, kContract);
}
Value KernelBuilder::fsub(Value a, Value b) {
  return create<arith::SubFOp>(a, b, kContract);
}
Value KernelBuilder::fmul(Value a, Value b) {
  return create<arith::MulFOp>(a, b, kContract);
}
Value KernelBuilder::fdiv(Value a, Value b) {
  return create<arith::DivFOp>(a, b);
}
Value KernelBuilder::fmax(Value a, Value b) {
  return create<arith::MaxNumFOp>(a, b);
}
Value KernelBuilder::fma(Value a, Value b, Value c) {
  return create<math::FmaOp>(a, b, c);
}
Value KernelBuilder::exp2(Value x) {
  return create<math::Exp2Op>(x, arith::FastMathFlags::afn);
}
static Type withElement(Type shaped, Type element) {
  if (auto vector = dyn_cast<VectorType>(shaped))
    return vector.clone(element);
  return element;
}

Value KernelBuilder::widen(Value x) {
  if (getElementTypeOrSelf(x).isF32())
    return x;
  return create<arith::ExtFOp>(withElement(x.getType(), getF32Type()), x);
}
Value KernelBuilder::narrow(Value x, Type element) {
  if (getElementTypeOrSelf(x) == element)
    return x;
  return create<arith::TruncFOp>(withElement(x.getType(), element), x);
}
Value KernelBuilder::extract(Value vector, int64_t lane) {
  if (!isa<VectorType>(vector.getType()))
    return vector;
  return create<vector::ExtractOp>(vector, lane);
}

Value KernelBuilder::zero(Type type) {
  return create<arith::ConstantOp>(getZeroAttr(type));
}

Value KernelBuilder::bitcast(Type type, Value x) {
  return create<LLVM::BitcastOp>(type, x);
}
Value KernelBuilder::bits(Value vector) {
  return bitcast(getI32Type(), vector);
}

Value KernelBuilder::pack(ValueRange scalars) {
  if (scalars.size() == 1)
    return scalars[0];
  auto type = VectorType::get({static_cast<int64_t>(scalars.size())},
                              scalars[0].getType());
  return create<vector::FromElementsOp>(type, scalars);
}

Value KernelBuilder::reduce(Value vector, Combine combine) {
  auto type = dyn_cast<VectorType>(vector.getType());
  if (!type)
    return vector;
  // A tree is shorter than the chain of a vector.reduction.
  SmallVector<Value> parts;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    parts.push_back(extract(vector, i));
  while (parts.size() > 1) {
    size_t half = (parts.size() + 1) / 2;
    for (size_t i = half; i < parts.size(); ++i)
      parts[i - half] = combine(parts[i - half], parts[i]);
    parts.resize(half);
  }
  return parts[0];
}

Value KernelBuilder::sum(Value vector) {
  return reduce(vector, [&](Value a, Value b) { return fadd(a, b); });
}

Address KernelBuilder::at(const Rows &rows, Value row, Value column) {
  auto wide = [&](Value value) {
    return createOrFold<arith::IndexCastOp>(getIndexType(), value);
  };
  Value stride = create<arith::ConstantIndexOp>(rows.stride);
  Value index = createOrFold<arith::MulIOp>(wide(row), stride, kNoWrap);
  index = createOrFold<arith::AddIOp>(index, wide(column), kNoWrap);
  return {rows.base, index};
}

Address KernelBuilder::address(const Rows &rows, Value row, Value column) {
  accesses[rows.base] = Access::Mutable;
  return at(rows, row, column);
}

Address KernelBuilder::further(Address address, const Rows &of, int64_t rows,
                               int64_t columns) {
  Value elements = create<arith::ConstantIndexOp>(rows * of.stride + columns);
  return {address.base,
          createOrFold<arith::AddIOp>(address.index, elements, kNoWrap)};
}

Address KernelBuilder::further(Address address, Value elements) {
  Value wide = createOrFold<arith::IndexCastOp>(getIndexType(), elements);
  return {address.base,
          createOrFold<arith::AddIOp>(address.index, wide, kNoWrap)};
}

Value KernelBuilder::opaque(Value x) {
  bool wide = x.getType().isInteger(64);
  return create<LLVM::InlineAsmOp>(
             x.getType(), x, wide ? "mov.b64 $0, $1;" : "mov.b32 $0, $1;",
             wide ? "=l,l" : "=r,r", /*has_side_effects=*/true,
             /*is_align_stack=*/false, LLVM::TailCallKind::None,
             LLVM::AsmDialectAttr::get(getContext(), LLVM::AsmDialect::AD_ATT),
             ArrayAttr())
      .getRes();
}

Address KernelBuilder::opaque(Address address) {
  Value index = create<arith::IndexCastOp>(getI64Type(), address.index);
  return {address.base,
          create<arith::IndexCastOp>(getIndexType(), opaque(index))};
}

static int64_t bytesOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return (vector ? vector.getNumElements() : 1) *
         getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8;
}

Value KernelBuilder::load(const Rows &rows, Value row, Value column,
                          int64_t lanes, Access access) {
  accesses.try_emplace(rows.base, access);
  if (access == Access::Mutable)
    accesses[rows.base] = access;
  return loadFrom(at(rows, row, column),
                  lanes == 1 ? rows.element
                             : Type(VectorType::get({lanes}, rows.element)));
}

Value KernelBuilder::loadFrom(Address address, Type type) {
  llvm::MaybeAlign bytes(bytesOf(type));
  if (auto vector = dyn_cast<VectorType>(type))
    return create<vector::LoadOp>(vector, address.base, address.index,
                                  /*nontemporal=*/false, bytes);
  return create<memref::LoadOp>(address.base, address.index,
                                /*nontemporal=*/false, bytes);
}

Value KernelBuilder::loadField(Value bytes, Value offset, Type type) {
  accesses.try_emplace(bytes, Access::ReadOnly);
  Value view = create<memref::ViewOp>(
      MemRefType::get({}, type), bytes,
      createOrFold<arith::IndexCastOp>(getIndexType(), offset), ValueRange());
  return create<memref::LoadOp>(view, ValueRange());
}

Value KernelBuilder::loadWide(const Rows &rows, Value row, Value column,
                              int64_t lanes, Access access) {
  return widen(load(rows, row, column, lanes, access));
}

void KernelBuilder::store(Value x, const Rows &rows, Value row, Value column) {
  storeTo(narrow(x, rows.element), address(rows, row, column));
}

void KernelBuilder::storeTo(Value x, Address to) {
  llvm::MaybeAlign bytes(bytesOf(x.getType()));
  if (isa<VectorType>(x.getType()))
    create<vector::StoreOp>(x, to.base, to.index, /*nontemporal=*/false, bytes);
  else
    create<memref::StoreOp>(x, to.base, to.index, /*nontemporal=*/false, bytes);
}

Rows KernelBuilder::shared(Type element, int64_t count, int64_t stride) {
  auto space =
      gpu::AddressSpaceAttr::get(getContext(), gpu::AddressSpace::Workgroup);
  auto type =
      MemRefType::get({count}, element, MemRefLayoutAttrInterface(), space);
  Value base = function.addWorkgroupAttribution(type, getLoc());
  function.setworkgroupAttributionAttrs(
      function.getNumWorkgroupAttributions() - 1,
      getDictionaryAttr(getNamedAttr(LLVM::LLVMDialect::getAlignAttrName(),
                                     getI64IntegerAttr(16))));
  return {base, element, stride};
}

Rows KernelBuilder::launchedShared(Type element, int64_t count,
                                   int64_t stride) {
  static constexpr StringLiteral kName = "launched_shared";
  auto space =
      gpu::AddressSpaceAttr::get(getContext(), gpu::AddressSpace::Workgroup);
  auto bytes = [&](int64_t size) {
    return MemRefType::get({size}, getI8Type(), MemRefLayoutAttrInterface(),
                           space);
  };
  auto kernels = function->getParentOfType<gpu::GPUModuleOp>();
  if (!kernels.lookupSymbol(kName)) {
    InsertionGuard guard(*this);
    setInsertionPointToStart(kernels.getBody());
    create<memref::GlobalOp>(kName, StringAttr(), bytes(0), Attribute(),
                             /*constant=*/false, getI64IntegerAttr(1024));
  }
  int64_t size = count * element.getIntOrFloatBitWidth() / 8;
  Value all = create<memref::GetGlobalOp>(bytes(0), kName);
  Value own = create<memref::ReinterpretCastOp>(
      bytes(size), all, 0, ArrayRef<int64_t>{size}, ArrayRef<int64_t>{1});
  auto type =
      MemRefType::get({count}, element, MemRefLayoutAttrInterface(), space);
  Value first = create<arith::ConstantIndexOp>(0);
  return {create<memref::ViewOp>(type, own, first, ValueRange()), element,
          stride};
}

Value KernelBuilder::choose(Value condition, llvm::function_ref<Value()> then,
                            Value otherwise) {
  return choose(
      condition, [&] { return SmallVector<Value>{then()}; },
      [&] { return SmallVector<Value>{otherwise}; })[0];
}

ValueRange
KernelBuilder::choose(Value condition,
                      llvm::function_ref<SmallVector<Value>()> then,
                      llvm::function_ref<SmallVector<Value>()> otherwise) {
  auto branch = [&](llvm::function_ref<SmallVector<Value>()> values) {
    return
        [&, values](OpBuilder &, Location) { create<scf::YieldOp>(values()); };
  };
  return create<scf::IfOp>(condition, branch(then), branch(otherwise))
      ->getResults();
}

void KernelBuilder::barrier() { create<gpu::BarrierOp>(); }

void KernelBuilder::fence() {
  create<LLVM::FenceOp>(LLVM::AtomicOrdering::seq_cst, "device");
}

/// The address as an LLVM pointer, for operations that memref does not have.
Value KernelBuilder::pointer(Address address) {
  auto type = cast<MemRefType>(address.base.getType());
  Value start = create<memref::ExtractAlignedPointerAsIndexOp>(address.base);
  Value bytes = createOrFold<arith::MulIOp>(
      address.index,
      create<arith::ConstantIndexOp>(bytesOf(type.getElementType())), kNoWrap);
  Value at = create<arith::IndexCastOp>(
      getI64Type(), createOrFold<arith::AddIOp>(start, bytes));
  auto in = [&](unsigned space) {
    return LLVM::LLVMPointerType::get(getContext(), space);
  };
  if (gpu::GPUDialect::hasWorkgroupMemoryAddressSpace(type))
    return create<LLVM::IntToPtrOp>(in(kShared), at);
  Value generic = create<LLVM::IntToPtrOp>(in(kGeneric), at);
  return create<LLVM::AddrSpaceCastOp>(in(kGlobal), generic);
}

Value KernelBuilder::atomicIncrement(const Rows &rows, Value index,
                                     Value last) {
  return create<LLVM::AtomicRMWOp>(LLVM::AtomicBinOp::uinc_wrap,
                                   pointer(address(rows, i32(0), index)), last,
                                   LLVM::AtomicOrdering::monotonic, "device");
}

Value KernelBuilder::atomicAdd(const Rows &rows, Value index, Value value,
                               Scope scope) {
  return create<LLVM::AtomicRMWOp>(LLVM::AtomicBinOp::add,
                                   pointer(address(rows, i32(0), index)), value,
                                   LLVM::AtomicOrdering::monotonic,
                                   scope == Scope::Device ? "device" : "block");
}

void KernelBuilder::whenLast(const Rows &arrivals, Value index, Value count,
                             llvm::function_ref<void()> body) {
  Rows flag = shared(getI32Type(), 1, 1);
  when(arrivesLast(arrivals, index, count, flag, [&] { barrier(); }), body);
}

Value KernelBuilder::arrivesLast(const Rows &arrivals, Value index, Value count,
                                 const Rows &flag,
                                 llvm::function_ref<void()> barrier) {
  Value last = sub(count, i32(1)), no = zero(flag.element);
  Value yes = create<arith::ConstantOp>(getOneAttr(flag.element));
  fence();
  barrier();
  when(equal(thread(), i32(0)), [&] {
    Value before = atomicIncrement(arrivals, index, last);
    store(select(equal(before, last), yes, no), flag, i32(0), i32(0));
  });
  barrier();
  Value said = load(flag, i32(0), i32(0)), isLast;
  if (isa<FloatType>(flag.element))
    isLast =
        create<arith::CmpFOp>(arith::CmpFPredicate::OGT, widen(said), f32(0));
  else
    isLast = create<arith::CmpIOp>(arith::CmpIPredicate::ne, said, no);
  when(isLast, [&] { fence(); });
  return isLast;
}

Value KernelBuilder::shuffle(Value x, gpu::ShuffleMode mode, Value operand) {
  auto word = [&](Value part) -> Value {
    return create<gpu::ShuffleOp>(part, operand, i32(kWarp), mode)
        .getShuffleResult();
  };
  if (x.getType().getIntOrFloatBitWidth() == 32)
    return word(x);
  // Shuffles two words, which bitcasts join again.
  auto pair = VectorType::get({2}, getI32Type());
  Value halves = bitcast(pair, x);
  Value low = word(extract(halves, 0)), high = word(extract(halves, 1));
  return bitcast(x.getType(), pack({low, high}));
}

Value KernelBuilder::shuffleXor(Value x, int64_t mask) {
  return shuffle(x, gpu::ShuffleMode::XOR, i32(mask));
}

Value KernelBuilder::shuffleFrom(Value x, Value lane) {
  return shuffle(x, gpu::ShuffleMode::IDX, lane);
}

Value KernelBuilder::warpReduce(Value x, int64_t width, Combine combine) {
  for (int64_t mask = width / 2; mask; mask /= 2)
    x = combine(x, shuffleXor(x, mask));
  return x;
}

Value KernelBuilder::warpSum(Value x, int64_t width) {
  return warpReduce(x, width, [&](Value a, Value b) { return fadd(a, b); });
}

Value KernelBuilder::warpMax(Value x, int64_t width) {
  return warpReduce(x, width, [&](Value a, Value b) { return fmax(a, b); });
}

Value KernelBuilder::warpScan(Value x) {
  Value own = lane();
  for (int64_t distance = 1; distance < kWarp; distance *= 2) {
    Value before = shuffle(x, gpu::ShuffleMode::UP, i32(distance));
    x = select(less(own, i32(distance)), x, add(x, before));
  }
  return x;
}

Value KernelBuilder::blockReduce(Value x, const Rows &scratch,
                                 Combine combine) {
  Value own = warpReduce(x, kWarp, combine);
  when(equal(lane(), i32(0)), [&] { store(own, scratch, i32(0), warp()); });
  barrier();
  Value all = load(scratch, i32(0), i32(0));
  for (int64_t i = 1; i < blockThreads / kWarp; ++i)
    all = combine(all, load(scratch, i32(0), i32(i)));
  return all;
}
