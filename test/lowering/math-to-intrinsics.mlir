// RUN: cria-opt %s --pass-pipeline='builtin.module(gpu.module(gpu.func(math-to-intrinsics)))' --split-input-file --verify-diagnostics | FileCheck %s

// Fast-math flags stay, and with afn 2^x is one instruction; vectors are as scalars.
// CHECK-LABEL: gpu.func @k
// CHECK-SAME: (%[[X:.*]]: f32, %[[Y:.*]]: f32, %[[V:.*]]: vector<4xf32>)
// CHECK-NOT: math.
// CHECK: llvm.call_intrinsic "llvm.fabs"(%[[X]]) : (f32) -> f32
// CHECK: llvm.call_intrinsic "llvm.copysign"(%[[X]], %[[Y]])
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"(%[[X]]) {fastmathFlags = #llvm.fastmath<afn>} : (f32) -> f32
// CHECK: llvm.call_intrinsic "llvm.sqrt"(%[[X]])
// CHECK: llvm.call_intrinsic "llvm.fma"(%[[V]], %[[V]], %[[V]]) : (vector<4xf32>, vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK: llvm.call_intrinsic "llvm.maxnum"(%[[X]], %[[Y]])
// CHECK: llvm.call_intrinsic "llvm.minnum"(%[[X]], %[[Y]])
// CHECK: llvm.call_intrinsic "llvm.exp2"(%[[X]]) : (f32) -> f32
gpu.module @kernels {
  gpu.func @k(%x: f32, %y: f32, %v: vector<4xf32>) kernel {
    %0 = math.absf %x : f32
    %1 = math.copysign %x, %y : f32
    %2 = math.exp2 %x fastmath<afn> : f32
    %3 = math.sqrt %x : f32
    %4 = math.fma %v, %v, %v : vector<4xf32>
    %5 = arith.maxnumf %x, %y : f32
    %6 = arith.minnumf %x, %y : f32
    %7 = math.exp2 %x : f32
    gpu.return
  }
}

// -----

// What rounds, tests and counts; some have a constant more.
// CHECK-LABEL: gpu.func @few
// CHECK-NOT: math.
// CHECK: llvm.call_intrinsic "llvm.roundeven"(%{{.*}}) : (f32) -> f32
// CHECK: %[[NAN:.*]] = llvm.mlir.constant(3 : i32) : i32
// CHECK: llvm.call_intrinsic "llvm.is.fpclass"(%{{.*}}, %[[NAN]]) : (f32, i32) -> i1
// CHECK: %[[FALSE:.*]] = llvm.mlir.constant(false) : i1
// CHECK: llvm.call_intrinsic "llvm.ctlz"(%{{.*}}, %[[FALSE]]) : (i32, i1) -> i32
gpu.module @kernels {
  gpu.func @few(%x: f32, %i: i32) kernel {
    %0 = math.roundeven %x : f32
    %1 = math.isnan %x : f32
    %2 = math.ctlz %i : i32
    gpu.return
  }
}

// -----

// Beside products of warpgroups no function is called for rare operands.
// CHECK-LABEL: gpu.func @wgmma
// CHECK-SAME: %[[V:[a-z0-9]+]]: vector<2xf32>
// CHECK: llvm.call_intrinsic "llvm.nvvm.div.full"(%{{.*}}, %{{.*}}) : (f32, f32) -> f32
// CHECK: llvm.call_intrinsic "llvm.nvvm.sqrt.approx.f"(%{{.*}}) : (f32) -> f32
// CHECK: arith.divf %{{.*}} : f64
// CHECK: %[[E:.*]] = vector.extract %[[V]][1]
// CHECK: %[[D:.*]] = llvm.call_intrinsic "llvm.nvvm.div.full"(%[[E]], %{{.*}}) : (f32, f32) -> f32
// CHECK: vector.insert %[[D]], %{{.*}} [1]
// CHECK-LABEL: gpu.func @exact
// CHECK: arith.divf
// CHECK: llvm.call_intrinsic "llvm.sqrt"
gpu.module @kernels {
  gpu.func @wgmma(%x: f32, %y: f64, %v: vector<2xf32>) kernel {
    nvvm.wgmma.commit.group.sync.aligned
    %0 = arith.divf %x, %x : f32
    %1 = math.sqrt %x : f32
    %2 = arith.divf %y, %y : f64
    %3 = arith.divf %v, %v : vector<2xf32>
    gpu.return
  }
  gpu.func @exact(%x: f32) kernel {
    %0 = arith.divf %x, %x : f32
    %1 = math.sqrt %x : f32
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @k(%x: f32) kernel {
    // expected-error @below {{'math.log' op expected a function that has an instruction on a GPU: of the math dialect one that rounds, tests or counts, or absf, absi, copysign, exp2, fma or sqrt, or arith.maxnumf or minnumf}}
    %0 = math.log %x : f32
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @k(%x: f32) kernel {
    // expected-error @below {{'arith.remf' op expected a function that has an instruction on a GPU}}
    %0 = arith.remf %x, %x : f32
    gpu.return
  }
}
