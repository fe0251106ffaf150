// CHLO's comparisons and implicit broadcasts, and operations that newer programs do not have.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s

// CHECK-LABEL: ENTRY %main
// CHECK: %abs = f32[4]{0} abs(%a)
// CHECK: %broadcast = f32[4]{0} broadcast(%constant), dimensions={}
// CHECK: %compare = pred[4]{0} compare(%abs, %broadcast), direction=EQ
// CHECK: %broadcast.1 = f32[4]{0} broadcast(%constant.1), dimensions={}
// CHECK: %compare.1 = pred[4]{0} compare(%a, %broadcast.1), direction=EQ
// CHECK: %broadcast.2 = f32[4]{0} broadcast(%constant.2), dimensions={}
// CHECK: %compare.2 = pred[4]{0} compare(%a, %broadcast.2), direction=EQ
// CHECK: %broadcast.3 = f32[4]{0} broadcast(%constant.3), dimensions={}
// CHECK: %broadcast.4 = s32[4]{0} broadcast(%constant.4), dimensions={}
// CHECK: %c = f32[2,1]{1,0} broadcast(%constant.5), dimensions={}
// CHECK: %broadcast.5 = f32[2,4]{1,0} broadcast(%reshape), dimensions={0}
// CHECK: %broadcast.6 = f32[2,4]{1,0} broadcast(%a), dimensions={1}
// CHECK: %add.4 = f32[2,4]{1,0} add(%broadcast.5, %broadcast.6)
// CHECK: %broadcast.7 = f32[2,4]{1,0} broadcast(%a), dimensions={1}
// CHECK: %broadcast.8 = f32[2,4]{1,0} broadcast(%reshape.1), dimensions={0}
// CHECK: %multiply = f32[2,4]{1,0} multiply(%broadcast.7, %broadcast.8)
// CHECK: %broadcast.9 = f32[2,4]{1,0} broadcast(%a), dimensions={1}
// CHECK: %broadcast.10 = f32[2,4]{1,0} broadcast(%reshape.2), dimensions={0}
// CHECK: %compare.3 = pred[2,4]{1,0} compare(%broadcast.9, %broadcast.10), direction=LT
// CHECK: %broadcast.11 = f32[2,4]{1,0} broadcast(%a), dimensions={1}
// CHECK: %broadcast.12 = f32[2,4]{1,0} broadcast(%reshape.3), dimensions={0}
// CHECK: %select = f32[2,4]{1,0} select(%compare.3, %broadcast.11, %broadcast.12)
// CHECK: %gather = f32[2]{0} gather(%a, %i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
// CHECK: %broadcast.13 = f32[2,4]{1,0} broadcast(%a), dimensions={1}
// CHECK: %dot = f32[] dot(%a, %a), lhs_contracting_dims={0}, rhs_contracting_dims={0}
// CHECK: %dot.1 = f32[4]{0} dot(%m, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
// CHECK: %dot.2 = f32[4,4]{1,0} dot(%m, %m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
// CHECK: %transpose = f32[4,4]{1,0} transpose(%dot.2), dimensions={1,0}
// CHECK: %reduce = f32[4]{0} reduce(%m, %constant.6), dimensions={0}, to_apply=%add.2
// CHECK: %map = f32[4]{0} map(%a, %a), dimensions={0}, to_apply=%region
// CHECK: %reduce.1 = f32[] reduce(%a, %s), dimensions={0}, to_apply=%region.1
// CHECK: %select-and-scatter = f32[4]{0} select-and-scatter(%a, %src, %s), window={size=2 stride=2}, select=%region.2, scatter=%region.3
// CHECK: %all-reduce = f32[4]{0} all-reduce(%a), replica_groups={{[{][{]}}0}}, to_apply=%add.3
// CHECK: %collective-broadcast = f32[4]{0} collective-broadcast(%a), channel_id=3, replica_groups={{[{][{]}}0}}, has_dynamic_root=false
module @rare {
  func.func public @main(%a: tensor<4xf32>, %m: tensor<4x4xf32>, %i: tensor<2xi32>, %t: !stablehlo.token, %s: tensor<f32>, %z: tensor<4xcomplex<f32>>, %u: tensor<4xui32>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>, tensor<4xi32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xi1>, tensor<2x4xf32>, tensor<2xf32>, tensor<2x4xf32>, tensor<f32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %0 = chlo.is_inf %a : tensor<4xf32> -> tensor<4xi1>
    %1 = chlo.is_pos_inf %a : tensor<4xf32> -> tensor<4xi1>
    %2 = chlo.is_neg_inf %a : tensor<4xf32> -> tensor<4xi1>
    %3 = "chlo.constant_like"(%a) {value = 2.5 : f32} : (tensor<4xf32>) -> tensor<4xf32>
    %i4 = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
    %4 = "chlo.constant_like"(%i4) {value = 7 : i32} : (tensor<4xi32>) -> tensor<4xi32>
    %c = stablehlo.constant dense<1.0> : tensor<2x1xf32>
    %5 = chlo.broadcast_add %c, %a : (tensor<2x1xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %6 = chlo.broadcast_multiply %a, %c {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
    %7 = chlo.broadcast_compare %a, %c {comparison_direction = #chlo<comparison_direction LT>} : (tensor<4xf32>, tensor<2x1xf32>) -> tensor<2x4xi1>
    %8 = chlo.broadcast_select %7, %a, %c : (tensor<2x4xi1>, tensor<4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
    %9 = "stablehlo.torch_index_select"(%a, %i) {dim = 0 : i64, batch_dims = 0 : i64} : (tensor<4xf32>, tensor<2xi32>) -> tensor<2xf32>
    %10 = "stablehlo.broadcast"(%a) {broadcast_sizes = array<i64: 2>} : (tensor<4xf32>) -> tensor<2x4xf32>
    %11 = "stablehlo.dot"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
    %12 = "stablehlo.dot"(%m, %a) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %13 = "stablehlo.einsum"(%m, %m) {einsum_config = "ij,jk->ki"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %14 = "stablehlo.unary_einsum"(%m) {einsum_config = "ij->j"} : (tensor<4x4xf32>) -> tensor<4xf32>
    %15 = "stablehlo.map"(%a, %a) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %p = stablehlo.power %x, %y : tensor<f32>
      stablehlo.return %p : tensor<f32>
    }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %16 = "stablehlo.reduce"(%a, %s) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %p = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %p : tensor<f32>
    }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %src = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %17 = "stablehlo.select_and_scatter"(%a, %src, %s) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %p = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }, {
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %p = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %p : tensor<f32>
    }) {window_dimensions = array<i64: 2>, window_strides = array<i64: 2>} : (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
    %18 = "stablehlo.cross-replica-sum"(%a) {replica_groups = dense<0> : tensor<1x1xi64>} : (tensor<4xf32>) -> tensor<4xf32>
    %19 = "stablehlo.collective_broadcast"(%a) {replica_groups = dense<0> : tensor<1x1xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 0>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>, tensor<4xi32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xi1>, tensor<2x4xf32>, tensor<2xf32>, tensor<2x4xf32>, tensor<f32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}
