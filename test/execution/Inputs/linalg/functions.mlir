// Every function of the math dialect, a column each.
#id = affine_map<(t, k) -> (t, k)>
#back = affine_map<(t, k) -> (t)>

func.func private @x() -> tensor<20x31xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @other() -> tensor<20xf32> attributes {cria.weight = {slot = 1 : index, source = "other"}}

func.func private @functions(%x: tensor<20x31xf32>, %other: tensor<20xf32>, %n: index, %out: tensor<20x31xf32>) -> tensor<20x31xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %tenth = arith.constant 0.1 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 31] [1, 1] : tensor<20x31xf32> to tensor<?x31xf32>
  %other_n = tensor.extract_slice %other[0] [%n] [1] : tensor<20xf32> to tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?x31xf32>
  %y = linalg.generic {indexing_maps = [#id, #back, #id], iterator_types = ["parallel", "parallel"]} ins(%rows, %other_n : tensor<?x31xf32>, tensor<?xf32>) outs(%e : tensor<?x31xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %abs = math.absf %v : f32
    %a = arith.addf %abs, %tenth : f32
    %b = arith.addf %abs, %one : f32
    %u = arith.divf %v, %b : f32
    %c = linalg.index 1 : index
    %r0 = math.exp %v : f32
    %r1 = math.exp2 %v : f32
    %r2 = math.expm1 %v : f32
    %r3 = math.log %a : f32
    %r4 = math.log2 %a : f32
    %r5 = math.log10 %a : f32
    %r6 = math.log1p %a : f32
    %r7 = math.sin %v : f32
    %r8 = math.cos %v : f32
    %r9 = math.tan %v : f32
    %r10 = math.asin %u : f32
    %r11 = math.acos %u : f32
    %r12 = math.atan %v : f32
    %r13 = math.sinh %v : f32
    %r14 = math.cosh %v : f32
    %r15 = math.tanh %v : f32
    %r16 = math.asinh %v : f32
    %r17 = math.acosh %b : f32
    %r18 = math.atanh %u : f32
    %r19 = math.erf %v : f32
    %r20 = math.erfc %v : f32
    %r21 = math.cbrt %v : f32
    %r22 = math.sqrt %a : f32
    %r23 = math.rsqrt %a : f32
    %r24 = math.floor %v : f32
    %r25 = math.ceil %v : f32
    %r26 = math.round %v : f32
    %r27 = math.roundeven %v : f32
    %r28 = math.trunc %v : f32
    %r29 = math.powf %a, %v : f32
    %r30 = math.atan2 %v, %w : f32
    %i0 = arith.constant 0 : index
    %is0 = arith.cmpi eq, %c, %i0 : index
    %s0 = arith.select %is0, %r0, %zero : f32
    %i1 = arith.constant 1 : index
    %is1 = arith.cmpi eq, %c, %i1 : index
    %s1 = arith.select %is1, %r1, %s0 : f32
    %i2 = arith.constant 2 : index
    %is2 = arith.cmpi eq, %c, %i2 : index
    %s2 = arith.select %is2, %r2, %s1 : f32
    %i3 = arith.constant 3 : index
    %is3 = arith.cmpi eq, %c, %i3 : index
    %s3 = arith.select %is3, %r3, %s2 : f32
    %i4 = arith.constant 4 : index
    %is4 = arith.cmpi eq, %c, %i4 : index
    %s4 = arith.select %is4, %r4, %s3 : f32
    %i5 = arith.constant 5 : index
    %is5 = arith.cmpi eq, %c, %i5 : index
    %s5 = arith.select %is5, %r5, %s4 : f32
    %i6 = arith.constant 6 : index
    %is6 = arith.cmpi eq, %c, %i6 : index
    %s6 = arith.select %is6, %r6, %s5 : f32
    %i7 = arith.constant 7 : index
    %is7 = arith.cmpi eq, %c, %i7 : index
    %s7 = arith.select %is7, %r7, %s6 : f32
    %i8 = arith.constant 8 : index
    %is8 = arith.cmpi eq, %c, %i8 : index
    %s8 = arith.select %is8, %r8, %s7 : f32
    %i9 = arith.constant 9 : index
    %is9 = arith.cmpi eq, %c, %i9 : index
    %s9 = arith.select %is9, %r9, %s8 : f32
    %i10 = arith.constant 10 : index
    %is10 = arith.cmpi eq, %c, %i10 : index
    %s10 = arith.select %is10, %r10, %s9 : f32
    %i11 = arith.constant 11 : index
    %is11 = arith.cmpi eq, %c, %i11 : index
    %s11 = arith.select %is11, %r11, %s10 : f32
    %i12 = arith.constant 12 : index
    %is12 = arith.cmpi eq, %c, %i12 : index
    %s12 = arith.select %is12, %r12, %s11 : f32
    %i13 = arith.constant 13 : index
    %is13 = arith.cmpi eq, %c, %i13 : index
    %s13 = arith.select %is13, %r13, %s12 : f32
    %i14 = arith.constant 14 : index
    %is14 = arith.cmpi eq, %c, %i14 : index
    %s14 = arith.select %is14, %r14, %s13 : f32
    %i15 = arith.constant 15 : index
    %is15 = arith.cmpi eq, %c, %i15 : index
    %s15 = arith.select %is15, %r15, %s14 : f32
    %i16 = arith.constant 16 : index
    %is16 = arith.cmpi eq, %c, %i16 : index
    %s16 = arith.select %is16, %r16, %s15 : f32
    %i17 = arith.constant 17 : index
    %is17 = arith.cmpi eq, %c, %i17 : index
    %s17 = arith.select %is17, %r17, %s16 : f32
    %i18 = arith.constant 18 : index
    %is18 = arith.cmpi eq, %c, %i18 : index
    %s18 = arith.select %is18, %r18, %s17 : f32
    %i19 = arith.constant 19 : index
    %is19 = arith.cmpi eq, %c, %i19 : index
    %s19 = arith.select %is19, %r19, %s18 : f32
    %i20 = arith.constant 20 : index
    %is20 = arith.cmpi eq, %c, %i20 : index
    %s20 = arith.select %is20, %r20, %s19 : f32
    %i21 = arith.constant 21 : index
    %is21 = arith.cmpi eq, %c, %i21 : index
    %s21 = arith.select %is21, %r21, %s20 : f32
    %i22 = arith.constant 22 : index
    %is22 = arith.cmpi eq, %c, %i22 : index
    %s22 = arith.select %is22, %r22, %s21 : f32
    %i23 = arith.constant 23 : index
    %is23 = arith.cmpi eq, %c, %i23 : index
    %s23 = arith.select %is23, %r23, %s22 : f32
    %i24 = arith.constant 24 : index
    %is24 = arith.cmpi eq, %c, %i24 : index
    %s24 = arith.select %is24, %r24, %s23 : f32
    %i25 = arith.constant 25 : index
    %is25 = arith.cmpi eq, %c, %i25 : index
    %s25 = arith.select %is25, %r25, %s24 : f32
    %i26 = arith.constant 26 : index
    %is26 = arith.cmpi eq, %c, %i26 : index
    %s26 = arith.select %is26, %r26, %s25 : f32
    %i27 = arith.constant 27 : index
    %is27 = arith.cmpi eq, %c, %i27 : index
    %s27 = arith.select %is27, %r27, %s26 : f32
    %i28 = arith.constant 28 : index
    %is28 = arith.cmpi eq, %c, %i28 : index
    %s28 = arith.select %is28, %r28, %s27 : f32
    %i29 = arith.constant 29 : index
    %is29 = arith.cmpi eq, %c, %i29 : index
    %s29 = arith.select %is29, %r29, %s28 : f32
    %i30 = arith.constant 30 : index
    %is30 = arith.cmpi eq, %c, %i30 : index
    %s30 = arith.select %is30, %r30, %s29 : f32
    linalg.yield %s30 : f32
  } -> tensor<?x31xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 31] [1, 1] : tensor<?x31xf32> into tensor<20x31xf32>
  return %all : tensor<20x31xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x31xf32>) -> tensor<20x31xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x31xf32>
  %other = call @other() : () -> tensor<20xf32>
  %made = call @functions(%x, %other, %tokens, %logits) : (tensor<20x31xf32>, tensor<20xf32>, index, tensor<20x31xf32>) -> tensor<20x31xf32>
  return %made : tensor<20x31xf32>
}
