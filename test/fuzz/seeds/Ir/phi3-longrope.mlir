module @model {
  llama.weight @embed_tokens : tensor<128x64xf32> from "model.embed_tokens.weight"
  llama.weight @input_layernorm[4] : tensor<64xf32> from "model.layers.{}.input_layernorm.weight"
  llama.weight @q_proj[4] : tensor<64x64xf32> from "model.layers.{}.self_attn.qkv_proj.weight" rows 0 of 128
  llama.weight @k_proj[4] : tensor<32x64xf32> from "model.layers.{}.self_attn.qkv_proj.weight" rows 64 of 128
  llama.weight @v_proj[4] : tensor<32x64xf32> from "model.layers.{}.self_attn.qkv_proj.weight" rows 96 of 128
  llama.weight @o_proj[4] : tensor<64x64xf32> from "model.layers.{}.self_attn.o_proj.weight"
  llama.weight @post_attention_layernorm[4] : tensor<64xf32> from "model.layers.{}.post_attention_layernorm.weight"
  llama.weight @gate_proj[4] : tensor<172x64xf32> from "model.layers.{}.mlp.gate_up_proj.weight" rows 0 of 344
  llama.weight @up_proj[4] : tensor<172x64xf32> from "model.layers.{}.mlp.gate_up_proj.weight" rows 172 of 344
  llama.weight @down_proj[4] : tensor<64x172xf32> from "model.layers.{}.mlp.down_proj.weight"
  llama.weight @norm : tensor<64xf32> from "model.norm.weight"
  llama.weight @lm_head : tensor<128x64xf32> from "lm_head.weight"
  llama.rope_table @rope {inv_freq = array<f32: 1.000000e+00, 0.195857689, 3.867990e-02, 0.0076923077, 0.00153888157, 3.09439318E-4>, long_inv_freq = array<f32: 1.000000e+00, 0.102592133, 0.0145049635, 0.00232558115, 3.98969307E-4, 7.14090711E-5>, original = 64 : i64, positions = 512 : i64, scale = 1.2247448713915889 : f64}
  func.func @forward(%arg0: tensor<?xi32>, %arg1: index, %arg2: index, %arg3: tensor<4x2x512x16xf32>, %arg4: tensor<4x2x512x16xf32>) -> (tensor<?x128xf32>, tensor<4x2x512x16xf32>, tensor<4x2x512x16xf32>) {
    %c0 = arith.constant 0 : index
    %dim = tensor.dim %arg0, %c0 : tensor<?xi32>
    %cos, %sin = llama.get_rope @rope : tensor<512x6xf32>
    %embed_tokens = llama.get_weight @embed_tokens : tensor<128x64xf32>
    %0 = llama.embed %arg0, %embed_tokens : tensor<?xi32>, tensor<128x64xf32>
    %c4 = arith.constant 4 : index
    %c1 = arith.constant 1 : index
    %c0_0 = arith.constant 0 : index
    %1:3 = scf.for %arg5 = %c0_0 to %c4 step %c1 iter_args(%arg6 = %0, %arg7 = %arg3, %arg8 = %arg4) -> (tensor<?x64xf32>, tensor<4x2x512x16xf32>, tensor<4x2x512x16xf32>) {
      %input_layernorm = llama.get_weight @input_layernorm[%arg5] : tensor<64xf32>
      %5 = llama.rmsnorm %arg6, %input_layernorm {eps = 1.000000e-05 : f64} : tensor<?x64xf32>, tensor<64xf32>
      %q_proj = llama.get_weight @q_proj[%arg5] : tensor<64x64xf32>
      %6 = llama.linear %5, %q_proj : tensor<?x64xf32>, tensor<64x64xf32>
      %expanded = tensor.expand_shape %6 [[0], [1, 2]] output_shape [%dim, 4, 16] : tensor<?x64xf32> into tensor<?x4x16xf32>
      %k_proj = llama.get_weight @k_proj[%arg5] : tensor<32x64xf32>
      %7 = llama.linear %5, %k_proj : tensor<?x64xf32>, tensor<32x64xf32>
      %expanded_1 = tensor.expand_shape %7 [[0], [1, 2]] output_shape [%dim, 2, 16] : tensor<?x32xf32> into tensor<?x2x16xf32>
      %v_proj = llama.get_weight @v_proj[%arg5] : tensor<32x64xf32>
      %8 = llama.linear %5, %v_proj : tensor<?x64xf32>, tensor<32x64xf32>
      %expanded_2 = tensor.expand_shape %8 [[0], [1, 2]] output_shape [%dim, 2, 16] : tensor<?x32xf32> into tensor<?x2x16xf32>
      %9 = llama.rope %expanded, %cos, %sin at %arg1 : tensor<?x4x16xf32>, tensor<512x6xf32>
      %10 = llama.rope %expanded_1, %cos, %sin at %arg1 : tensor<?x2x16xf32>, tensor<512x6xf32>
      %11 = llama.kv_append %10 into %arg7[%arg5] at %arg1 : tensor<?x2x16xf32> into tensor<4x2x512x16xf32>
      %12 = llama.kv_append %expanded_2 into %arg8[%arg5] at %arg1 : tensor<?x2x16xf32> into tensor<4x2x512x16xf32>
      %13 = llama.gqa %9, %11, %12[%arg5] at %arg1 {causal, scale = 2.500000e-01 : f64, window = 48 : i64} : tensor<?x4x16xf32>, tensor<4x2x512x16xf32>
      %collapsed = tensor.collapse_shape %13 [[0], [1, 2]] : tensor<?x4x16xf32> into tensor<?x64xf32>
      %o_proj = llama.get_weight @o_proj[%arg5] : tensor<64x64xf32>
      %14 = llama.linear %collapsed, %o_proj : tensor<?x64xf32>, tensor<64x64xf32>
      %15 = llama.residual %arg6, %14 : tensor<?x64xf32>
      %post_attention_layernorm = llama.get_weight @post_attention_layernorm[%arg5] : tensor<64xf32>
      %16 = llama.rmsnorm %15, %post_attention_layernorm {eps = 1.000000e-05 : f64} : tensor<?x64xf32>, tensor<64xf32>
      %gate_proj = llama.get_weight @gate_proj[%arg5] : tensor<172x64xf32>
      %17 = llama.linear %16, %gate_proj : tensor<?x64xf32>, tensor<172x64xf32>
      %up_proj = llama.get_weight @up_proj[%arg5] : tensor<172x64xf32>
      %18 = llama.linear %16, %up_proj : tensor<?x64xf32>, tensor<172x64xf32>
      %19 = llama.swiglu %17, %18 : tensor<?x172xf32>
      %down_proj = llama.get_weight @down_proj[%arg5] : tensor<64x172xf32>
      %20 = llama.linear %19, %down_proj : tensor<?x172xf32>, tensor<64x172xf32>
      %21 = llama.residual %15, %20 : tensor<?x64xf32>
      scf.yield %21, %11, %12 : tensor<?x64xf32>, tensor<4x2x512x16xf32>, tensor<4x2x512x16xf32>
    }
    %2 = arith.subi %dim, %arg2 : index
    %extracted_slice = tensor.extract_slice %1#0[%arg2, 0] [%2, 64] [1, 1] : tensor<?x64xf32> to tensor<?x64xf32>
    %norm = llama.get_weight @norm : tensor<64xf32>
    %3 = llama.rmsnorm %extracted_slice, %norm {eps = 1.000000e-05 : f64} : tensor<?x64xf32>, tensor<64xf32>
    %lm_head = llama.get_weight @lm_head : tensor<128x64xf32>
    %4 = llama.head %3, %lm_head : tensor<?x64xf32>, tensor<128x64xf32>
    return %4, %1#1, %1#2 : tensor<?x128xf32>, tensor<4x2x512x16xf32>, tensor<4x2x512x16xf32>
  }
}
