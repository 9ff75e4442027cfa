// Valid modules that no importer made, for PassesTest.cpp.
func.func private @f()
func.func private @g(tensor<?x4xf32>) -> tensor<?x4xf32>
func.func private @h(tensor<*xf32>, memref<*xf32>, i32) -> (tensor<*xf32>, none)
// -----
func.func @f() { return }
func.func private @p() { return }
func.func @unranked(%a: tensor<?x?xf32>, %b: tensor<*xf32>) -> tensor<?x?xf32> { return %a : tensor<?x?xf32> }
// -----
func.func @forward(%a: i32) -> i32 { return %a : i32 }
// -----
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x4xf32> {
  %c = arith.constant true
  %e = llama.get_weight @w : tensor<8x4xf32>
  cf.cond_br %c, ^a, ^b
^a:
  %x = llama.embed %ids, %e : tensor<?xi32>, tensor<8x4xf32>
  return %x : tensor<?x4xf32>
^b:
  %y = llama.embed %ids, %e : tensor<?xi32>, tensor<8x4xf32>
  %z = llama.residual %y, %y : tensor<?x4xf32>
  return %z : tensor<?x4xf32>
}
llama.weight @w : tensor<8x4xf32> from "w"
// -----
llama.weight @w : tensor<8x4xf32> from "w"
func.func private @block(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = llama.rmsnorm %x {eps = 1.0e-5} : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x8xf32> {
  %e = llama.get_weight @w : tensor<8x4xf32>
  %x = llama.embed %ids, %e : tensor<?xi32>, tensor<8x4xf32>
  %y = call @block(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %l = llama.head %y, %e : tensor<?x4xf32>, tensor<8x4xf32>
  return %l : tensor<?x8xf32>
}
// -----
func.func @prefill(%x: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %k:2 = llama.kernel "k" -> tensor<?x4xf32>, tensor<?x4xf32> {
    %a = llama.residual %x, %x : tensor<?x4xf32>
    %b = llama.residual %x, %a : tensor<?x4xf32>
    llama.yield %a, %b : tensor<?x4xf32>, tensor<?x4xf32>
  }
  return %k#0, %k#1 : tensor<?x4xf32>, tensor<?x4xf32>
}
// -----
module @inner {
  llama.weight @w : tensor<64x32xf32> from "w"
  func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x64xf32> {
    %e = llama.get_weight @w : tensor<64x32xf32>
    %x = llama.embed %ids, %e : tensor<?xi32>, tensor<64x32xf32>
    %l = llama.head %x, %e : tensor<?x32xf32>, tensor<64x32xf32>
    return %l : tensor<?x64xf32>
  }
}
// -----
llama.weight @w : tensor<8x4xf32> from "w"
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %k: tensor<1x1x8x4xf32>) -> (tensor<?x8xf32>, tensor<1x1x8x4xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %e = llama.get_weight @w : tensor<8x4xf32>
  %x = llama.embed %ids, %e : tensor<?xi32>, tensor<8x4xf32>
  %c = arith.cmpi eq, %position, %c0 : index
  %h = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 1, 4] : tensor<?x4xf32> into tensor<?x1x4xf32>
  %r:2 = scf.if %c -> (tensor<?x4xf32>, tensor<1x1x8x4xf32>) {
    %k1 = llama.kv_append %h into %k[%c0] at %position : tensor<?x1x4xf32> into tensor<1x1x8x4xf32>
    %y = llama.rmsnorm %x {eps = 1.0e-5} : tensor<?x4xf32>
    scf.yield %y, %k1 : tensor<?x4xf32>, tensor<1x1x8x4xf32>
  } else {
    scf.yield %x, %k : tensor<?x4xf32>, tensor<1x1x8x4xf32>
  }
  %l = llama.head %r#0, %e : tensor<?x4xf32>, tensor<8x4xf32>
  return %l, %r#1 : tensor<?x8xf32>, tensor<1x1x8x4xf32>
}
// -----
// Dynamic sizes everywhere, at and away from functions.
func.func @any(%x: tensor<?x?x?xf32>, %h: tensor<?x?x?xf32>, %t: tensor<?x?xf32>, %k: tensor<?x2x?x?xf32>, %p: index) -> tensor<?x?x?xf32> {
  %r = llama.rope %h, %t, %t at %p : tensor<?x?x?xf32>, tensor<?x?xf32>
  %l = llama.rmsnorm %r {eps = 1.0e-5} : tensor<?x?x?xf32>
  return %l : tensor<?x?x?xf32>
}
// -----
// Linalg on tensors and memrefs of odd ranks and types.
func.func @tensors(%a: tensor<?x8xf32>, %b: tensor<4x8xf32>, %s: tensor<f32>, %c: tensor<3xcomplex<f32>>, %i: tensor<?x?xi1>, %o: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x8xf32>, tensor<f32>, tensor<?x?xi1>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<?x8xf32>, tensor<4x8xf32>) outs(%o : tensor<?x4xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %q = arith.addf %z, %p : f32
    linalg.yield %q : f32
  } -> tensor<?x4xf32>
  %1 = linalg.softmax dimension(0) ins(%a : tensor<?x8xf32>) outs(%a : tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = linalg.exp ins(%s : tensor<f32>) outs(%s : tensor<f32>) -> tensor<f32>
  %3 = linalg.transpose ins(%i : tensor<?x?xi1>) outs(%i : tensor<?x?xi1>) permutation = [1, 0]
  return %0, %1, %2, %3 : tensor<?x4xf32>, tensor<?x8xf32>, tensor<f32>, tensor<?x?xi1>
}
func.func @memrefs(%a: memref<?x8xf32>, %b: memref<4x8xf32, strided<[16, 2], offset: ?>>, %s: memref<f32>, %d: memref<?x?xf64, 3>, %n: index) -> memref<?xf32> {
  linalg.softmax dimension(1) ins(%a : memref<?x8xf32>) outs(%a : memref<?x8xf32>)
  %c = arith.constant 1.0 : f32
  linalg.fill ins(%c : f32) outs(%s : memref<f32>)
  linalg.copy ins(%d : memref<?x?xf64, 3>) outs(%d : memref<?x?xf64, 3>)
  %0 = memref.alloc(%n) : memref<?xf32>
  %1 = memref.alloca() : memref<4x8xf32>
  memref.copy %b, %1 : memref<4x8xf32, strided<[16, 2], offset: ?>> to memref<4x8xf32>
  scf.forall (%i) in (%n) {
    %v = memref.load %s[] : memref<f32>
    memref.store %v, %0[%i] : memref<?xf32>
  }
  return %0 : memref<?xf32>
}
func.func private @caller(%n: index) {
  %a = memref.alloc(%n) : memref<?x8xf32>
  call @callee(%a) : (memref<?x8xf32>) -> ()
  memref.dealloc %a : memref<?x8xf32>
  return
}
func.func private @callee(%a: memref<?x8xf32>)
// -----
// Attributes of entries, weights and kernels that say nothing.
func.func private @w() -> tensor<4xf32> attributes {cria.weight = {slot = "a"}}
func.func private @v(index, index) attributes {cria.weight = 3, cria.rope = {}}
func.func @decode(%ids: memref<4xi32>, %n: index) attributes {cria.arguments = ["ids", "tokens"], cria.chunk = -4 : index} { return }
func.func @prefill(%ids: memref<4xi32>, %k: memref<1x1x4x4xf32>) attributes {cria.arguments = ["ids", 3], cria.arena_bytes = "many"} {
  %0 = func.call @w() : () -> tensor<4xf32>
  return
}
func.func @sample(%ids: i64) attributes {cria.arguments = ["sampled"]} { return }
// -----
module { func.func @f() { return } module attributes {cria.manifest = 3} {} }
// -----
module { func.func @f() { return } module attributes {cria.manifest = {model = {chunk = dense<1> : tensor<i8>}, weights = ["\FF"]}} { func.func @g() { return } } }
// -----
module attributes {cria.manifest = {}, llama.shards = 2 : i64, cria.plan = {entries = 3}} {
  llama.weight @w : tensor<32x64xf32> from "w" split rows
  func.func @forward(%x: tensor<?x64xf32>) -> tensor<?x32xf32> {
    %w = llama.get_weight @w : tensor<32x64xf32>
    %y = llama.linear %x, %w : tensor<?x64xf32>, tensor<32x64xf32>
    %z = llama.all_reduce %y : tensor<?x32xf32>
    return %z : tensor<?x32xf32>
  }
}
// -----
// Kernels and launches, of other compilers too.
module attributes {gpu.container_module} {
  gpu.module @other {
    gpu.func @k(%a: memref<?xf32>, %n: index, %x: f32) kernel {
      %i = gpu.thread_id x
      %y = math.tan %x : f32
      memref.store %y, %a[%i] : memref<?xf32>
      gpu.return
    }
    gpu.func @empty() { gpu.return }
    func.func @helper() { return }
  }
  gpu.module @kernels {}
  func.func @main(%a: memref<?xf32>, %n: index, %x: f32) {
    %c1 = arith.constant 1 : index
    gpu.launch_func @other::@k blocks in (%n, %c1, %c1) threads in (%c1, %c1, %c1) args(%a : memref<?xf32>, %n : index, %x : f32)
    gpu.launch blocks(%i, %j, %k) in (%p = %c1, %q = %c1, %r = %c1) threads(%s, %t, %u) in (%v = %c1, %w = %c1, %z = %c1) { gpu.terminator }
    return
  }
}
// -----
llvm.func @printf(!llvm.ptr, ...) -> i32
llvm.func @f(%a: i64) -> i64 { llvm.return %a : i64 }
llvm.mlir.global constant @g(3 : i64) : i64
emitc.func @e() { emitc.return }
// -----
// Calls in circles, of functions that are not there, through values.
func.func @a(%x: memref<?xf32>) { call @b(%x) : (memref<?xf32>) -> () return }
func.func @b(%x: memref<?xf32>) { call @a(%x) : (memref<?xf32>) -> () return }
func.func private @c(%n: index) -> memref<?xf32> {
  %f = func.constant @a : (memref<?xf32>) -> ()
  %0 = memref.alloc(%n) : memref<?xf32>
  call_indirect %f(%0) : (memref<?xf32>) -> ()
  %r = scf.while (%m = %0) : (memref<?xf32>) -> memref<?xf32> {
    %t = arith.constant false
    scf.condition(%t) %m : memref<?xf32>
  } do {
  ^bb0(%m: memref<?xf32>):
    scf.yield %m : memref<?xf32>
  }
  return %r : memref<?xf32>
}
// -----
func.func @vectors(%a: vector<[4]xf32>, %b: vector<2x16x32xbf16>, %c: vector<f32>, %m: memref<16x64xbf16>, %t: tensor<2x2xf8E4M3FN>, %q: tensor<4x!quant.uniform<i8:f32, 1.0>>) -> vector<[4]xbf16> {
  %0 = arith.truncf %a : vector<[4]xf32> to vector<[4]xbf16>
  %1 = math.exp %a : vector<[4]xf32>
  %2 = math.tanh %c : vector<f32>
  %z = arith.constant 0 : index
  %3 = amx.tile_load %m[%z, %z] : memref<16x64xbf16> into !amx.tile<16x32xbf16>
  %4 = amx.tile_zero : !amx.tile<16x16xf32>
  %5 = amx.tile_mulf %3, %3, %4 : !amx.tile<16x32xbf16>, !amx.tile<16x32xbf16>, !amx.tile<16x16xf32>
  return %0 : vector<[4]xbf16>
}
// -----
module { module { module { func.func @f() { return } } } gpu.module @g { gpu.func @k() kernel { gpu.return } } }
