// RUN: cria-opt --kernels-to-functions --mlir-print-debuginfo --mlir-print-local-scope --split-input-file --verify-diagnostics %s | FileCheck %s

// A kernel becomes a private function of its name and the entry's. It takes what
// it uses, makes its own constants, and stays a symbol; its location is kept.
// CHECK: func.func private @layers_mlp_down_decode(%[[V:[^:]*]]: f32 {{.*}}, %[[X:[^:]*]]: memref<4xf32> {{.*}}) attributes {passthrough = ["noinline"]} {
// CHECK-NEXT: %[[C:.*]] = arith.constant 3 : index
// CHECK-NEXT: memref.store %[[V]], %[[X]][%[[C]]] : memref<4xf32> loc("model.layers.*.mlp.down_proj")
// CHECK-NEXT: return
// CHECK-NEXT: } loc(fused<"layers_mlp_down">["model.layers.*.mlp.down_proj"])
// CHECK: func.func private @empty_decode()

// CHECK: func.func @decode(%[[X:[^:]*]]: memref<4xf32> {{.*}}, %[[V:[^:]*]]: f32
// CHECK: scf.for
// CHECK-NEXT: call @layers_mlp_down_decode(%[[V]], %[[X]])
// CHECK-NEXT: }
// CHECK: call @empty_decode() : () -> ()
// CHECK: scf.execute_region
func.func @decode(%x: memref<4xf32>, %v: f32, %n: index) {
  %c3 = arith.constant 3 : index
  scf.for %i = %c3 to %n step %c3 {
    scf.execute_region no_inline {
      memref.store %v, %x[%c3] : memref<4xf32> loc("model.layers.*.mlp.down_proj")
      scf.yield
    } loc(fused<"layers_mlp_down">["model.layers.*.mlp.down_proj"])
  }
  scf.execute_region no_inline {
    scf.yield
  } loc(fused<"empty">["e"])
  scf.execute_region no_inline {
    scf.yield
  } loc("no_kernel")
  return
}

// Kernels of one name in another entry are other functions.
// CHECK: func.func private @empty_prefill()
// CHECK: func.func @prefill
func.func @prefill() {
  scf.execute_region no_inline {
    scf.yield
  } loc(fused<"empty">["e"])
  return
}

// -----

func.func @decode(%x: memref<4xf32>, %i: index) -> f32 {
  // expected-error @unknown {{expected a kernel of one block whose results are not used}}
  %r = scf.execute_region -> f32 no_inline {
    %0 = memref.load %x[%i] : memref<4xf32>
    scf.yield %0 : f32
  } loc(fused<"k">["k"])
  return %r : f32
}
