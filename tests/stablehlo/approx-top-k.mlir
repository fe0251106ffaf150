// jax.lax.approx_max_k and approx_min_k: a sort, of which the first are what is wanted.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
// RUN: %gxrun %s --device=emu --compare=ref --input=random:3 --input=random:4
// REQUIRES: emu

// CHECK-LABEL: ENTRY
// CHECK: %[[BOTH:[^ ]+]] = (f32[3,6]{1,0}, s32[3,6]{1,0}) sort(%x, %{{.*}}), dimensions={1}, is_stable=true, to_apply=%greater
// CHECK: %[[KEY:[^ ]+]] = f32[3,6]{1,0} get-tuple-element(%[[BOTH]]), index=0
// CHECK: f32[3,2]{1,0} slice(%[[KEY]]), slice={[0:3], [0:2]}
// CHECK: s32[3,2]{1,0} slice(%{{.*}}), slice={[0:3], [0:2]}
// CHECK: %[[ONE:[^ ]+]] = f32[6,3]{1,0} sort(%y), dimensions={0}, is_stable=true, to_apply=%least
// CHECK: f32[4,3]{1,0} slice(%[[ONE]]), slice={[0:4], [0:3]}
func.func @greater(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func @least(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  %0 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func public @main(%x: tensor<3x6xf32>, %y: tensor<6x3xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>, tensor<4x3xf32>) {
  %i = stablehlo.iota dim = 1 : tensor<3x6xi32>
  %c = stablehlo.constant dense<-1> : tensor<i32>
  %f = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %f, %c) {backend_config = "", called_computations = [@greater], mhlo.backend_config = {aggregate_to_topk = true, is_fallback = true, recall_target = 0.949999988 : f32, reduction_dim = 1 : i64, reduction_input_size_override = -1 : i64, top_k = 2 : i64}} : (tensor<3x6xf32>, tensor<3x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  %1 = stablehlo.custom_call @ApproxTopK(%y, %f) {called_computations = [@least], mhlo.backend_config = {aggregate_to_topk = false, reduction_dim = -2 : i64, top_k = 2 : i64}} : (tensor<6x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  return %0#0, %0#1, %1 : tensor<3x2xf32>, tensor<3x2xi32>, tensor<4x3xf32>
}
