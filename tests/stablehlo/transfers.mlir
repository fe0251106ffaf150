// Operations with tokens, and such whose sizes are operands.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s

// CHECK-LABEL: ENTRY %main
// CHECK: %infeed = (f32[4]{0}, token[]) infeed(%t), infeed_config="cfg"
// CHECK: %get-tuple-element = f32[4]{0} get-tuple-element(%infeed), index=0
// CHECK: %get-tuple-element.1 = token[] get-tuple-element(%infeed), index=1
// CHECK: %outfeed = token[] outfeed(%tuple, %get-tuple-element.1), outfeed_shape=(f32[4]{0}, f32[4]{0}), outfeed_config="out"
// CHECK: %send = (f32[4]{0}, u32[], token[]) send(%a, %outfeed), channel_id=5, is_host_transfer=true
// CHECK: %send-done = token[] send-done(%send), channel_id=5, is_host_transfer=true
// CHECK: %recv = (f32[4]{0}, u32[], token[]) recv(%send-done), channel_id=6, is_host_transfer=true
// CHECK: %recv-done = (f32[4]{0}, token[]) recv-done(%recv), channel_id=6, is_host_transfer=true
// CHECK: %get-tuple-element.3 = token[] get-tuple-element(%recv-done), index=1
// CHECK: %get-tuple-element.2 = f32[4]{0} get-tuple-element(%recv-done), index=0
// CHECK: %rng = f32[2,3]{1,0} rng(%lo, %hi), distribution=rng_uniform
// CHECK: %gather = f32[3,4]{1,0} gather(%m, %idx), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
// CHECK: %ragged-dot = f32[4,5]{1,0} ragged-dot(%m, %w, %g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
// CHECK: %convolution = f32[1,8,8,16]{3,2,1,0} convolution(%im, %k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
module @transfers attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%a: tensor<4xf32>, %t: !stablehlo.token, %q: tensor<2x3xf32>, %d: tensor<2xi32>, %im: tensor<1x8x8x3xf32>, %k: tensor<3x3x3x16xf32>, %lo: tensor<f32>, %hi: tensor<f32>, %idx: tensor<3x1xi32>, %m: tensor<4x4xf32>, %g: tensor<2xi32>, %w: tensor<2x4x5xf32>) -> (tensor<4xf32>, !stablehlo.token, !stablehlo.token, !stablehlo.token, tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>, tensor<4x5xf32>, tensor<1x8x8x16xf32>) {
    %0:2 = "stablehlo.infeed"(%t) {infeed_config = "cfg", layout = [[0]]} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    %1 = "stablehlo.outfeed"(%a, %a, %0#1) {outfeed_config = "out"} : (tensor<4xf32>, tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    %2 = "stablehlo.send"(%a, %1) {channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true} : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    %3:2 = "stablehlo.recv"(%2) {channel_handle = #stablehlo.channel_handle<handle = 6, type = 3>, is_host_transfer = true} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    %shape = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
    %4 = "stablehlo.rng"(%lo, %hi, %shape) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<2x3xf32>
    %sizes = stablehlo.constant dense<[1, 4]> : tensor<2xi32>
    %5 = "stablehlo.dynamic_gather"(%m, %idx, %sizes) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<4x4xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<3x4xf32>
    %6 = "chlo.ragged_dot"(%m, %w, %g) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>} : (tensor<4x4xf32>, tensor<2x4x5xf32>, tensor<2xi32>) -> tensor<4x5xf32>
    %pad = stablehlo.constant dense<1> : tensor<2x2xi32>
    %7 = "stablehlo.dynamic_conv"(%im, %k, %pad) {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>} : (tensor<1x8x8x3xf32>, tensor<3x3x3x16xf32>, tensor<2x2xi32>) -> tensor<1x8x8x16xf32>
    return %0#0, %1, %2, %3#1, %3#0, %4, %5, %6, %7 : tensor<4xf32>, !stablehlo.token, !stablehlo.token, !stablehlo.token, tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>, tensor<4x5xf32>, tensor<1x8x8x16xf32>
  }
}
