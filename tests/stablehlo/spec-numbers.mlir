// Numbers that the specification gives: quantised ones are rounded after their zero point is added, an iota counts in
// what is meant; epsilon is an f32; zeta of large arguments is 1; a scatter may give a wider type than its operand's.
// RUN: %gxrun %s --device=ref | FileCheck %s
// RUN: %gxrun %s --device=emu --compare=ref | FileCheck %s --check-prefix=EQUAL
func.func @main() -> (tensor<6xi8>, tensor<4xi8>, tensor<2xf64>, tensor<5xf32>, tensor<4xi32>, tensor<i32>, tensor<4xf64>, tensor<2xf32>) {
  %x = stablehlo.constant dense<[0.5, 1.5, 2.5, -0.5, -1.5, 0.49]> : tensor<6xf32>
  %q = stablehlo.uniform_quantize %x : (tensor<6xf32>) -> tensor<6x!quant.uniform<i8:f32, 1.0:1>>
  %s = stablehlo.bitcast_convert %q : (tensor<6x!quant.uniform<i8:f32, 1.0:1>>) -> tensor<6xi8>
  %i = stablehlo.iota dim = 0 : tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  %t = stablehlo.bitcast_convert %i : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4xi8>
  %one = stablehlo.constant dense<1.0> : tensor<2xf64>
  %zero = stablehlo.constant dense<0.0> : tensor<2xf64>
  %n = "stablehlo.batch_norm_inference"(%one, %one, %zero, %zero, %zero) {epsilon = 0.1 : f32, feature_index = 0 : i64} : (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) -> tensor<2xf64>
  %a = stablehlo.constant dense<[40.0, 50.0, 100.0, 150.0, 2.0]> : tensor<5xf32>
  %b = stablehlo.constant dense<[1.0, 1.0, 1.0, 0.5, 1.0]> : tensor<5xf32>
  %z = chlo.zeta %a, %b : tensor<5xf32>, tensor<5xf32> -> tensor<5xf32>
  %input = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %init = stablehlo.constant dense<0> : tensor<i32>
  %c:2 = chlo.scan(%input) inits(%init) dimension=0 {
  ^bb0(%e: tensor<i32>, %f: tensor<i32>):
    %1 = stablehlo.add %e, %f : tensor<i32>
    stablehlo.return %1, %1 : tensor<i32>, tensor<i32>
  } : (tensor<4xi32>, tensor<i32>) -> (tensor<4xi32>, tensor<i32>)
  %narrow = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %at = stablehlo.constant dense<[[1], [1]]> : tensor<2x1xi32>
  %more = stablehlo.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %w = "stablehlo.scatter"(%narrow, %at, %more) ({
  ^bb0(%g: tensor<f64>, %h: tensor<f64>):
    %2 = stablehlo.add %g, %h : tensor<f64>
    stablehlo.return %2 : tensor<f64>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<4xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<4xf64>
  %m = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %u = stablehlo.unary_einsum %m, config = "ab->a" : (tensor<2x3xf32>) -> tensor<2xf32>
  return %s, %t, %n, %z, %c#0, %c#1, %w, %u : tensor<6xi8>, tensor<4xi8>, tensor<2xf64>, tensor<5xf32>, tensor<4xi32>, tensor<i32>, tensor<4xf64>, tensor<2xf32>
}
// CHECK: result 0 s8[6]{{.*}}  first 2, 2, 4, 0,
// CHECK: result 1 s8[4]{{.*}}  3, 5, 7, 9
// CHECK: result 2 f64[2]{{.*}}  3.1622776366075751,
// CHECK: result 3 f32[5]{{.*}}  first 1, 1, 1, inf
// CHECK: result 4 s32[4]{{.*}}  1, 3, 6, 10
// CHECK: result 5 s32[]{{.*}}  10
// CHECK: result 6 f64[4]{{.*}}  1, 2.75, 3, 4
// CHECK: result 7 f32[2]{{.*}}  6, 15
// EQUAL: compare 3 {{.*}}equal
// EQUAL: compare 6 {{.*}}equal
