module @model {
  llama.weight @embed_tokens : tensor<128x64xf32> from "model.embed_tokens.weight"
  llama.weight @input_layernorm[5] : tensor<64xf32> from "model.layers.{}.input_layernorm.weight"
  llama.weight @q_proj[5] : tensor<96x64xf32> from "model.layers.{}.self_attn.q_proj.weight"
  llama.weight @k_proj[5] : tensor<48x64xf32> from "model.layers.{}.self_attn.k_proj.weight"
  llama.weight @v_proj[5] : tensor<48x64xf32> from "model.layers.{}.self_attn.v_proj.weight"
  llama.weight @o_proj[5] : tensor<64x96xf32> from "model.layers.{}.self_attn.o_proj.weight"
  llama.weight @post_attention_layernorm[5] : tensor<64xf32> from "model.layers.{}.post_attention_layernorm.weight"
  llama.weight @pre_feedforward_layernorm[5] : tensor<64xf32> from "model.layers.{}.pre_feedforward_layernorm.weight"
  llama.weight @gate_proj[5] : tensor<172x64xf32> from "model.layers.{}.mlp.gate_proj.weight"
  llama.weight @up_proj[5] : tensor<172x64xf32> from "model.layers.{}.mlp.up_proj.weight"
  llama.weight @down_proj[5] : tensor<64x172xf32> from "model.layers.{}.mlp.down_proj.weight"
  llama.weight @post_feedforward_layernorm[5] : tensor<64xf32> from "model.layers.{}.post_feedforward_layernorm.weight"
  llama.weight @norm : tensor<64xf32> from "model.norm.weight"
  llama.rope_table @rope {inv_freq = array<f32: 1.000000e+00, 0.464158893, 0.215443447, 1.000000e-01, 0.046415884, 0.0215443484, 0.00999999977, 0.00464158971, 0.00215443433, 1.000000e-03, 4.64158948E-4, 2.15443419E-4>, positions = 512 : i64}
  func.func @forward(%arg0: tensor<?xi32>, %arg1: index, %arg2: index, %arg3: tensor<5x2x512x24xf32>, %arg4: tensor<5x2x512x24xf32>) -> (tensor<?x128xf32>, tensor<5x2x512x24xf32>, tensor<5x2x512x24xf32>) {
    %c0 = arith.constant 0 : index
    %dim = tensor.dim %arg0, %c0 : tensor<?xi32>
    %cos, %sin = llama.get_rope @rope : tensor<512x12xf32>
    %embed_tokens = llama.get_weight @embed_tokens : tensor<128x64xf32>
    %0 = llama.embed %arg0, %embed_tokens {scale = 8.000000e+00 : f64} : tensor<?xi32>, tensor<128x64xf32>
    %c4 = arith.constant 4 : index
    %c2 = arith.constant 2 : index
    %c0_0 = arith.constant 0 : index
    %1:3 = scf.for %arg5 = %c0_0 to %c4 step %c2 iter_args(%arg6 = %0, %arg7 = %arg3, %arg8 = %arg4) -> (tensor<?x64xf32>, tensor<5x2x512x24xf32>, tensor<5x2x512x24xf32>) {
      %input_layernorm = llama.get_weight @input_layernorm[%arg5] : tensor<64xf32>
      %6 = llama.rmsnorm %arg6, %input_layernorm {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %q_proj = llama.get_weight @q_proj[%arg5] : tensor<96x64xf32>
      %7 = llama.linear %6, %q_proj : tensor<?x64xf32>, tensor<96x64xf32>
      %expanded = tensor.expand_shape %7 [[0], [1, 2]] output_shape [%dim, 4, 24] : tensor<?x96xf32> into tensor<?x4x24xf32>
      %k_proj = llama.get_weight @k_proj[%arg5] : tensor<48x64xf32>
      %8 = llama.linear %6, %k_proj : tensor<?x64xf32>, tensor<48x64xf32>
      %expanded_3 = tensor.expand_shape %8 [[0], [1, 2]] output_shape [%dim, 2, 24] : tensor<?x48xf32> into tensor<?x2x24xf32>
      %v_proj = llama.get_weight @v_proj[%arg5] : tensor<48x64xf32>
      %9 = llama.linear %6, %v_proj : tensor<?x64xf32>, tensor<48x64xf32>
      %expanded_4 = tensor.expand_shape %9 [[0], [1, 2]] output_shape [%dim, 2, 24] : tensor<?x48xf32> into tensor<?x2x24xf32>
      %10 = llama.rope %expanded, %cos, %sin at %arg1 : tensor<?x4x24xf32>, tensor<512x12xf32>
      %11 = llama.rope %expanded_3, %cos, %sin at %arg1 : tensor<?x2x24xf32>, tensor<512x12xf32>
      %12 = llama.kv_append %11 into %arg7[%arg5] at %arg1 : tensor<?x2x24xf32> into tensor<5x2x512x24xf32>
      %13 = llama.kv_append %expanded_4 into %arg8[%arg5] at %arg1 : tensor<?x2x24xf32> into tensor<5x2x512x24xf32>
      %14 = llama.gqa %10, %12, %13[%arg5] at %arg1 {causal, scale = 0.22360679774997896 : f64, softcap = 2.000000e+00 : f64, window = 24 : i64} : tensor<?x4x24xf32>, tensor<5x2x512x24xf32>
      %collapsed = tensor.collapse_shape %14 [[0], [1, 2]] : tensor<?x4x24xf32> into tensor<?x96xf32>
      %o_proj = llama.get_weight @o_proj[%arg5] : tensor<64x96xf32>
      %15 = llama.linear %collapsed, %o_proj : tensor<?x96xf32>, tensor<64x96xf32>
      %post_attention_layernorm = llama.get_weight @post_attention_layernorm[%arg5] : tensor<64xf32>
      %16 = llama.rmsnorm %15, %post_attention_layernorm {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %17 = llama.residual %arg6, %16 : tensor<?x64xf32>
      %pre_feedforward_layernorm = llama.get_weight @pre_feedforward_layernorm[%arg5] : tensor<64xf32>
      %18 = llama.rmsnorm %17, %pre_feedforward_layernorm {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %gate_proj = llama.get_weight @gate_proj[%arg5] : tensor<172x64xf32>
      %19 = llama.linear %18, %gate_proj : tensor<?x64xf32>, tensor<172x64xf32>
      %up_proj = llama.get_weight @up_proj[%arg5] : tensor<172x64xf32>
      %20 = llama.linear %18, %up_proj : tensor<?x64xf32>, tensor<172x64xf32>
      %21 = llama.swiglu %19, %20 activation gelu_tanh : tensor<?x172xf32>
      %down_proj = llama.get_weight @down_proj[%arg5] : tensor<64x172xf32>
      %22 = llama.linear %21, %down_proj : tensor<?x172xf32>, tensor<64x172xf32>
      %post_feedforward_layernorm = llama.get_weight @post_feedforward_layernorm[%arg5] : tensor<64xf32>
      %23 = llama.rmsnorm %22, %post_feedforward_layernorm {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %24 = llama.residual %17, %23 : tensor<?x64xf32>
      %c1_5 = arith.constant 1 : index
      %25 = arith.addi %arg5, %c1_5 : index
      %input_layernorm_6 = llama.get_weight @input_layernorm[%25] : tensor<64xf32>
      %26 = llama.rmsnorm %24, %input_layernorm_6 {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %q_proj_7 = llama.get_weight @q_proj[%25] : tensor<96x64xf32>
      %27 = llama.linear %26, %q_proj_7 : tensor<?x64xf32>, tensor<96x64xf32>
      %expanded_8 = tensor.expand_shape %27 [[0], [1, 2]] output_shape [%dim, 4, 24] : tensor<?x96xf32> into tensor<?x4x24xf32>
      %k_proj_9 = llama.get_weight @k_proj[%25] : tensor<48x64xf32>
      %28 = llama.linear %26, %k_proj_9 : tensor<?x64xf32>, tensor<48x64xf32>
      %expanded_10 = tensor.expand_shape %28 [[0], [1, 2]] output_shape [%dim, 2, 24] : tensor<?x48xf32> into tensor<?x2x24xf32>
      %v_proj_11 = llama.get_weight @v_proj[%25] : tensor<48x64xf32>
      %29 = llama.linear %26, %v_proj_11 : tensor<?x64xf32>, tensor<48x64xf32>
      %expanded_12 = tensor.expand_shape %29 [[0], [1, 2]] output_shape [%dim, 2, 24] : tensor<?x48xf32> into tensor<?x2x24xf32>
      %30 = llama.rope %expanded_8, %cos, %sin at %arg1 : tensor<?x4x24xf32>, tensor<512x12xf32>
      %31 = llama.rope %expanded_10, %cos, %sin at %arg1 : tensor<?x2x24xf32>, tensor<512x12xf32>
      %32 = llama.kv_append %31 into %12[%25] at %arg1 : tensor<?x2x24xf32> into tensor<5x2x512x24xf32>
      %33 = llama.kv_append %expanded_12 into %13[%25] at %arg1 : tensor<?x2x24xf32> into tensor<5x2x512x24xf32>
      %34 = llama.gqa %30, %32, %33[%25] at %arg1 {causal, scale = 0.22360679774997896 : f64, softcap = 2.000000e+00 : f64} : tensor<?x4x24xf32>, tensor<5x2x512x24xf32>
      %collapsed_13 = tensor.collapse_shape %34 [[0], [1, 2]] : tensor<?x4x24xf32> into tensor<?x96xf32>
      %o_proj_14 = llama.get_weight @o_proj[%25] : tensor<64x96xf32>
      %35 = llama.linear %collapsed_13, %o_proj_14 : tensor<?x96xf32>, tensor<64x96xf32>
      %post_attention_layernorm_15 = llama.get_weight @post_attention_layernorm[%25] : tensor<64xf32>
      %36 = llama.rmsnorm %35, %post_attention_layernorm_15 {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %37 = llama.residual %24, %36 : tensor<?x64xf32>
      %pre_feedforward_layernorm_16 = llama.get_weight @pre_feedforward_layernorm[%25] : tensor<64xf32>
      %38 = llama.rmsnorm %37, %pre_feedforward_layernorm_16 {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %gate_proj_17 = llama.get_weight @gate_proj[%25] : tensor<172x64xf32>
      %39 = llama.linear %38, %gate_proj_17 : tensor<?x64xf32>, tensor<172x64xf32>
      %up_proj_18 = llama.get_weight @up_proj[%25] : tensor<172x64xf32>
      %40 = llama.linear %38, %up_proj_18 : tensor<?x64xf32>, tensor<172x64xf32>
      %41 = llama.swiglu %39, %40 activation gelu_tanh : tensor<?x172xf32>
      %down_proj_19 = llama.get_weight @down_proj[%25] : tensor<64x172xf32>
      %42 = llama.linear %41, %down_proj_19 : tensor<?x172xf32>, tensor<64x172xf32>
      %post_feedforward_layernorm_20 = llama.get_weight @post_feedforward_layernorm[%25] : tensor<64xf32>
      %43 = llama.rmsnorm %42, %post_feedforward_layernorm_20 {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %44 = llama.residual %37, %43 : tensor<?x64xf32>
      scf.yield %44, %32, %33 : tensor<?x64xf32>, tensor<5x2x512x24xf32>, tensor<5x2x512x24xf32>
    }
    %c5 = arith.constant 5 : index
    %c1 = arith.constant 1 : index
    %c4_1 = arith.constant 4 : index
    %2:3 = scf.for %arg5 = %c4_1 to %c5 step %c1 iter_args(%arg6 = %1#0, %arg7 = %1#1, %arg8 = %1#2) -> (tensor<?x64xf32>, tensor<5x2x512x24xf32>, tensor<5x2x512x24xf32>) {
      %input_layernorm = llama.get_weight @input_layernorm[%arg5] : tensor<64xf32>
      %6 = llama.rmsnorm %arg6, %input_layernorm {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %q_proj = llama.get_weight @q_proj[%arg5] : tensor<96x64xf32>
      %7 = llama.linear %6, %q_proj : tensor<?x64xf32>, tensor<96x64xf32>
      %expanded = tensor.expand_shape %7 [[0], [1, 2]] output_shape [%dim, 4, 24] : tensor<?x96xf32> into tensor<?x4x24xf32>
      %k_proj = llama.get_weight @k_proj[%arg5] : tensor<48x64xf32>
      %8 = llama.linear %6, %k_proj : tensor<?x64xf32>, tensor<48x64xf32>
      %expanded_3 = tensor.expand_shape %8 [[0], [1, 2]] output_shape [%dim, 2, 24] : tensor<?x48xf32> into tensor<?x2x24xf32>
      %v_proj = llama.get_weight @v_proj[%arg5] : tensor<48x64xf32>
      %9 = llama.linear %6, %v_proj : tensor<?x64xf32>, tensor<48x64xf32>
      %expanded_4 = tensor.expand_shape %9 [[0], [1, 2]] output_shape [%dim, 2, 24] : tensor<?x48xf32> into tensor<?x2x24xf32>
      %10 = llama.rope %expanded, %cos, %sin at %arg1 : tensor<?x4x24xf32>, tensor<512x12xf32>
      %11 = llama.rope %expanded_3, %cos, %sin at %arg1 : tensor<?x2x24xf32>, tensor<512x12xf32>
      %12 = llama.kv_append %11 into %arg7[%arg5] at %arg1 : tensor<?x2x24xf32> into tensor<5x2x512x24xf32>
      %13 = llama.kv_append %expanded_4 into %arg8[%arg5] at %arg1 : tensor<?x2x24xf32> into tensor<5x2x512x24xf32>
      %14 = llama.gqa %10, %12, %13[%arg5] at %arg1 {causal, scale = 0.22360679774997896 : f64, softcap = 2.000000e+00 : f64, window = 24 : i64} : tensor<?x4x24xf32>, tensor<5x2x512x24xf32>
      %collapsed = tensor.collapse_shape %14 [[0], [1, 2]] : tensor<?x4x24xf32> into tensor<?x96xf32>
      %o_proj = llama.get_weight @o_proj[%arg5] : tensor<64x96xf32>
      %15 = llama.linear %collapsed, %o_proj : tensor<?x96xf32>, tensor<64x96xf32>
      %post_attention_layernorm = llama.get_weight @post_attention_layernorm[%arg5] : tensor<64xf32>
      %16 = llama.rmsnorm %15, %post_attention_layernorm {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %17 = llama.residual %arg6, %16 : tensor<?x64xf32>
      %pre_feedforward_layernorm = llama.get_weight @pre_feedforward_layernorm[%arg5] : tensor<64xf32>
      %18 = llama.rmsnorm %17, %pre_feedforward_layernorm {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %gate_proj = llama.get_weight @gate_proj[%arg5] : tensor<172x64xf32>
      %19 = llama.linear %18, %gate_proj : tensor<?x64xf32>, tensor<172x64xf32>
      %up_proj = llama.get_weight @up_proj[%arg5] : tensor<172x64xf32>
      %20 = llama.linear %18, %up_proj : tensor<?x64xf32>, tensor<172x64xf32>
      %21 = llama.swiglu %19, %20 activation gelu_tanh : tensor<?x172xf32>
      %down_proj = llama.get_weight @down_proj[%arg5] : tensor<64x172xf32>
      %22 = llama.linear %21, %down_proj : tensor<?x172xf32>, tensor<64x172xf32>
      %post_feedforward_layernorm = llama.get_weight @post_feedforward_layernorm[%arg5] : tensor<64xf32>
      %23 = llama.rmsnorm %22, %post_feedforward_layernorm {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
      %24 = llama.residual %17, %23 : tensor<?x64xf32>
      scf.yield %24, %12, %13 : tensor<?x64xf32>, tensor<5x2x512x24xf32>, tensor<5x2x512x24xf32>
    }
    %3 = arith.subi %dim, %arg2 : index
    %extracted_slice = tensor.extract_slice %2#0[%arg2, 0] [%3, 64] [1, 1] : tensor<?x64xf32> to tensor<?x64xf32>
    %norm = llama.get_weight @norm : tensor<64xf32>
    %4 = llama.rmsnorm %extracted_slice, %norm {eps = 9.9999999999999995E-7 : f64, round_once, unit_offset} : tensor<?x64xf32>, tensor<64xf32>
    %embed_tokens_2 = llama.get_weight @embed_tokens : tensor<128x64xf32>
    %5 = llama.head %4, %embed_tokens_2 {softcap = 1.500000e+00 : f64} : tensor<?x64xf32>, tensor<128x64xf32>
    return %5, %2#1, %2#2 : tensor<?x128xf32>, tensor<5x2x512x24xf32>, tensor<5x2x512x24xf32>
  }
}
