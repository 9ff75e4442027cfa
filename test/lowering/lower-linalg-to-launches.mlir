// RUN: cria-opt %s --lower-linalg-to-launches --canonicalize --split-input-file --remarks-filter=lower-linalg-to-launches 2> %t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t

// A thread an element: the tokens along y, the rest along x in blocks of 128. A
// thread runs the reduction, and threads beyond the last element do nothing. The
// kernel has the function's name.
// REMARK: remark: [Missed] generic-launch | Category:lower-linalg-to-launches | Function=product | Op=linalg.generic, Reason="no fast schedule takes it: a thread computes each element"
// CHECK-LABEL: func.func @product
// CHECK-SAME: (%{{[^,]*}}, %[[N:[^:]*]]: index, %{{.*}}, %[[LOGITS:[^:]*]]: memref<20x300xf32>)
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[C128:.*]] = arith.constant 128 : index
// CHECK: gpu.launch_func @kernels::@product blocks in (%[[C3]], %[[N]], %[[C1]]) threads in (%[[C128]], %[[C1]], %[[C1]])
// CHECK-SAME: args(%[[LOGITS]] : memref<20x300xf32>, %[[N]] : index, %{{.*}} : memref<20x64xf32>, %{{.*}} : memref<300x64xf32>)
// CHECK: gpu.module @kernels
// CHECK: gpu.func @product({{.*}}) kernel attributes {known_block_size = array<i32: 128, 1, 1>}
// CHECK: %[[BLOCK:.*]] = gpu.block_id x
// CHECK: %[[ROW:.*]] = gpu.block_id y
// CHECK: %[[THREAD:.*]] = gpu.thread_id x
// CHECK: %[[FIRST:.*]] = arith.muli %[[BLOCK]], %{{.*}}
// CHECK: %[[COLUMN:.*]] = arith.addi %[[FIRST]], %[[THREAD]]
// CHECK: %[[EXISTS:.*]] = arith.cmpi ult, %[[COLUMN]], %c300
// CHECK: scf.if %[[EXISTS]]
// CHECK: %[[OLD:.*]] = memref.load %{{.*}}[%[[ROW]], %[[COLUMN]]]
// CHECK: %[[SUM:.*]] = scf.for %[[K:.*]] = %c0 to %c64 step %c1 iter_args(%{{.*}} = %[[OLD]]) -> (f32)
// CHECK: memref.load %{{.*}}[%[[ROW]], %[[K]]]
// CHECK: memref.load %{{.*}}[%[[COLUMN]], %[[K]]]
// CHECK: memref.store %[[SUM]], %{{.*}}[%[[ROW]], %[[COLUMN]]]
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>
func.func private @x() -> memref<20x64xf32> attributes {cria.weight = {slot = 0 : index}}
func.func private @w() -> memref<300x64xf32> attributes {cria.weight = {slot = 1 : index}}
func.func @product(%ids: memref<20xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<20x300xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> memref<20x64xf32>
  %w = call @w() : () -> memref<300x64xf32>
  %rows = memref.subview %x[0, 0] [%n, 64] [1, 1] : memref<20x64xf32> to memref<?x64xf32, strided<[64, 1]>>
  %y = memref.subview %logits[0, 0] [%n, 300] [1, 1] : memref<20x300xf32> to memref<?x300xf32, strided<[300, 1]>>
  linalg.generic {indexing_maps = [#tk, #nk, #tn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%rows, %w : memref<?x64xf32, strided<[64, 1]>>, memref<300x64xf32>) outs(%y : memref<?x300xf32, strided<[300, 1]>>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %sum, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Tokens alone are along x. A temporary's sizes and strides are computed in the
// kernel.
// REMARK: Function=kernel | Op=memref.copy
// CHECK-LABEL: func.func @temporary
// CHECK-SAME: (%{{[^,]*}}, %[[N:[^:]*]]: index,
// CHECK: %[[BLOCKS:.*]] = arith.ceildivui %[[N]], %c128
// CHECK: gpu.launch_func @kernels::@kernel blocks in (%[[BLOCKS]], %c1, %c1)
// CHECK: gpu.func @kernel(%[[X:.*]]: memref<2x?xf32>, %[[I:.*]]: index, %{{.*}}: memref<20x1xf32>)
// CHECK: memref.reinterpret_cast %[[X]] to offset: [0], sizes: [2, %[[I]]], strides: [%[[I]], 1]
func.func @temporary(%ids: memref<20xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<20x1xf32>, %x: memref<1x1x1x1xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache"], cria.chunk = 20 : index} {
  %buffer = memref.alloc(%n) : memref<2x?xf32>
  %row = memref.subview %buffer[1, 0] [1, %n] [1, 1] : memref<2x?xf32> to memref<?xf32, strided<[1], offset: ?>>
  %flat = memref.collapse_shape %logits [[0, 1]] : memref<20x1xf32> into memref<20xf32>
  %y = memref.subview %flat[0] [%n] [1] : memref<20xf32> to memref<?xf32, strided<[1]>>
  memref.copy %row, %y {cria.kernel = "kernel"} : memref<?xf32, strided<[1], offset: ?>> to memref<?xf32, strided<[1]>>
  return
}

// -----

// A size that the plan does not know counts with the most that it can be: 2 x 48
// elements and a block.
// CHECK-LABEL: func.func @bounded
// CHECK: gpu.launch_func @kernels::@bounded blocks in (%c1, %c1, %c1)
// CHECK: gpu.func @bounded(%[[POSITION:.*]]: index, %{{.*}})
// CHECK: %[[SIZE:.*]] = affine.min #{{.*}}()[%[[POSITION]]]
// CHECK: %[[TOTAL:.*]] = arith.muli %[[SIZE]], %c2
// CHECK: arith.cmpi ult, %{{.*}}, %[[TOTAL]]
#room = affine_map<()[p] -> (p + 1, 48)>
func.func @bounded(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<2x48xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %zero = arith.constant 0.0 : f32
  %size = affine.min #room()[%position]
  %y = memref.subview %logits[0, 0] [2, %size] [1, 1] : memref<2x48xf32> to memref<2x?xf32, strided<[48, 1]>>
  linalg.fill ins(%zero : f32) outs(%y : memref<2x?xf32, strided<[48, 1]>>)
  return
}

// -----

// One that nothing bounds is one thread's.
// CHECK-LABEL: func.func @unbounded
// CHECK: gpu.launch_func @kernels::@unbounded blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
// CHECK: gpu.func @unbounded(%{{.*}}, %[[POSITION:.*]]: index)
// CHECK: scf.for %{{.*}} = %c0 to %[[POSITION]]
func.func @unbounded(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x48xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %zero = arith.constant 0.0 : f32
  %y = memref.subview %logits[0, 0] [1, %position] [1, 1] : memref<1x48xf32> to memref<?xf32, strided<[1]>>
  linalg.fill ins(%zero : f32) outs(%y : memref<?xf32, strided<[1]>>)
  return
}

// -----

// The layer of a cache is chosen on the host, the position in the kernel.
// CHECK-LABEL: func.func @cache
// CHECK: scf.for %[[LAYER:.*]] =
// CHECK-NEXT: %[[VIEW:.*]] = memref.subview %{{.*}}[%[[LAYER]], 0, 0, 0] [1, 1, 8, 4] [1, 1, 1, 1]
// CHECK-NEXT: gpu.launch_func {{.*}} args(%[[VIEW]] : memref<1x1x8x4xf32, strided<[32, 32, 4, 1], offset: ?>>, %{{.*}} : index)
// CHECK: gpu.func @cache(%[[KEYS:.*]]: memref<1x1x8x4xf32, strided<[32, 32, 4, 1], offset: ?>>, %[[POSITION:.*]]: index)
// CHECK: memref.subview %[[KEYS]][0, 0, %[[POSITION]], 0] [1, 1, 1, 4]
func.func @cache(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x1xf32>, %keys: memref<2x1x8x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache"], cria.chunk = 1 : index} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  scf.for %layer = %c0 to %c2 step %c1 {
    %key = memref.subview %keys[%layer, 0, %position, 0] [1, 1, 1, 4] [1, 1, 1, 1] : memref<2x1x8x4xf32> to memref<4xf32, strided<[1], offset: ?>>
    linalg.fill ins(%zero : f32) outs(%key : memref<4xf32, strided<[1], offset: ?>>)
  }
  return
}

// -----

// A layer that a kernel computes with is a constant of each of its copies.
// CHECK-LABEL: func.func @layers
// CHECK-NOT: scf.for
// CHECK-COUNT-2: gpu.launch_func
func.func private @w(index) -> memref<4xindex> attributes {cria.weight = {slot = 0 : index}}
func.func @layers(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x1xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  scf.for %layer = %c0 to %c2 step %c1 {
    %w = func.call @w(%layer) : (index) -> memref<4xindex>
    linalg.fill ins(%layer : index) outs(%w : memref<4xindex>)
  }
  return
}

// -----

// So are the turns of a loop that launches.
// CHECK-LABEL: module @launches
// CHECK: func.func @decode
// CHECK-NOT: scf.for
// CHECK: gpu.launch_func @kernels::@k
// CHECK: gpu.launch_func @kernels::@decode
// CHECK: gpu.launch_func @kernels::@k
// CHECK: gpu.launch_func @kernels::@decode_0
module @launches attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x1xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %x = memref.alloc() : memref<4xindex>
    scf.for %turn = %c0 to %c2 step %c1 {
      gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xindex>)
      linalg.fill ins(%turn : index) outs(%x : memref<4xindex>)
    }
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<4xindex>) kernel {
      gpu.return
    }
  }
}

// -----

// Any other op is one thread's, linalg in it as loops, its buffers the entry's.
// REMARK: Function=whole | Op=scf.for, Reason="no fast schedule takes it: one thread computes all"
// CHECK-LABEL: func.func @whole
// CHECK: memref.alloc() : memref<4xf32>
// CHECK-NEXT: gpu.launch_func @kernels::@whole blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
// CHECK: gpu.func @whole(
// CHECK-SAME: known_block_size = array<i32: 1, 1, 1>
// CHECK: scf.for
// CHECK: scf.for
// CHECK: memref.store
func.func @whole(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %position step %c1 {
    %buffer = memref.alloc() : memref<4xf32>
    linalg.fill ins(%zero : f32) outs(%buffer : memref<4xf32>)
    %x = memref.load %buffer[%c0] : memref<4xf32>
    memref.store %x, %logits[%c0, %c0] : memref<1x4xf32>
  }
  return
}

// -----

// A buffer whose size the thread computes is a part of the largest that it may be,
// here of 2 rows of 20. So is what is made after the loop.
// CHECK-LABEL: func.func @sized
// CHECK: %[[ROWS:.*]] = memref.alloc() : memref<2x20xf32>
// CHECK: %[[LAST:.*]] = memref.alloc() : memref<20xf32>
// CHECK-NEXT: gpu.launch_func @kernels::@sized {{.*}} args({{.*}}, %[[ROWS]] : memref<2x20xf32>, %{{.*}} : index, %[[LAST]] : memref<20xf32>)
// CHECK-NEXT: return
// CHECK: gpu.func @sized({{.*}}, %[[ROWS:.*]]: memref<2x20xf32>, %{{.*}}: index, %[[LAST:.*]]: memref<20xf32>)
// CHECK: scf.for
// CHECK: %[[SIZE:.*]] = memref.dim
// CHECK: memref.reinterpret_cast %[[ROWS]] to offset: [0], sizes: [2, %[[SIZE]]], strides: [%[[SIZE]], 1] : memref<2x20xf32> to memref<2x?xf32>
// CHECK: scf.yield
// CHECK: %[[SIZE:.*]] = memref.dim
// CHECK: memref.reinterpret_cast %[[LAST]] to offset: [0], sizes: [%[[SIZE]]], strides: [1] : memref<20xf32> to memref<?xf32>
func.func @sized(%ids: memref<20xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x20xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %start = memref.subview %logits[0, 0] [1, %n] [1, 1] : memref<1x20xf32> to memref<?xf32, strided<[1]>>
  %begin = memref.cast %start : memref<?xf32, strided<[1]>> to memref<?xf32, strided<[?], offset: ?>>
  %end = scf.for %i = %c0 to %position step %c1 iter_args(%x = %begin) -> (memref<?xf32, strided<[?], offset: ?>>) {
    %size = memref.dim %x, %c0 : memref<?xf32, strided<[?], offset: ?>>
    %rows = memref.alloc(%size) : memref<2x?xf32>
    linalg.fill ins(%zero : f32) outs(%rows : memref<2x?xf32>)
    %row = memref.subview %rows[1, 0] [1, %size] [1, 1] : memref<2x?xf32> to memref<?xf32, strided<[1], offset: ?>>
    %next = memref.cast %row : memref<?xf32, strided<[1], offset: ?>> to memref<?xf32, strided<[?], offset: ?>>
    scf.yield %next : memref<?xf32, strided<[?], offset: ?>>
  }
  %size = memref.dim %end, %c0 : memref<?xf32, strided<[?], offset: ?>>
  %last = memref.alloc(%size) : memref<?xf32>
  memref.copy %end, %last : memref<?xf32, strided<[?], offset: ?>> to memref<?xf32>
  return
}

// -----

// What uses a buffer that an op makes is in its kernel.
// CHECK-LABEL: func.func @group
// CHECK: memref.alloc() : memref<1x4xf32>
// CHECK-NEXT: gpu.launch_func @kernels::@group blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
// CHECK-NEXT: gpu.launch_func @kernels::@group_0
// CHECK-NEXT: return
// CHECK: gpu.func @group(
// CHECK: %[[EITHER:.*]] = arith.select
// CHECK: memref.load %[[EITHER]]
// CHECK: memref.store
// CHECK-NOT: memref.load
// CHECK: gpu.func @group_0(
func.func @group(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %buffer = memref.alloc() : memref<1x4xf32>
  %is = arith.cmpi eq, %position, %c1 : index
  %either = scf.if %is -> (memref<1x4xf32>) {
    memref.store %zero, %buffer[%c0, %c0] : memref<1x4xf32>
    scf.yield %buffer : memref<1x4xf32>
  } else {
    scf.yield %logits : memref<1x4xf32>
  }
  memref.copy %either, %logits : memref<1x4xf32> to memref<1x4xf32>
  linalg.fill ins(%zero : f32) outs(%logits : memref<1x4xf32>)
  return
}

// -----

// What a kernel reads of another's result goes through memory.
// CHECK-LABEL: func.func @loaded
// CHECK: %[[PLACE:.*]] = memref.alloc() : memref<i32>
// CHECK-NEXT: gpu.launch_func @kernels::@loaded {{.*}} args(%{{.*}} : memref<1xi32>, %[[PLACE]] : memref<i32>)
// CHECK-NEXT: gpu.launch_func @kernels::@loaded_0 {{.*}} args(%[[PLACE]] : memref<i32>
// CHECK-NEXT: return
// CHECK: gpu.func @loaded(%[[IDS:.*]]: memref<1xi32>, %[[AT:.*]]: memref<i32>)
// CHECK: %[[ID:.*]] = memref.load %[[IDS]]
// CHECK: memref.store %[[ID]], %[[AT]][]
// CHECK: gpu.func @loaded_0(%[[AT:.*]]: memref<i32>
// CHECK: memref.load %[[AT]][]
// CHECK: arith.sitofp
func.func @loaded(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %c0 = arith.constant 0 : index
  %id = memref.load %ids[%c0] : memref<1xi32>
  %value = arith.sitofp %id : i32 to f32
  linalg.fill ins(%value : f32) outs(%logits : memref<1x4xf32>)
  return
}

// -----

// Constants are in the kernels' module.
// CHECK-LABEL: func.func @constants
// CHECK: gpu.module @kernels
// CHECK-NEXT: memref.global "private" constant @four
// CHECK: gpu.func @constants(%{{[^:]*}}: memref<1x4xf32>)
// CHECK: memref.get_global @four
memref.global "private" constant @four : memref<1x4xf32> = dense<[[1.0, 2.0, 3.0, 4.0]]>
func.func @constants(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %four = memref.get_global @four : memref<1x4xf32>
  memref.copy %four, %logits : memref<1x4xf32> to memref<1x4xf32>
  return
}
