// The generic form of MLIR, as its own printer writes it.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
// RUN: %gxrun %s --device=ref | FileCheck %s --check-prefix=OUT
"builtin.module"() <{sym_name = "generic"}> ({
  // CHECK: HloModule generic
  "func.func"() <{function_type = () -> (tensor<2xf32>, tensor<3xi32>, tensor<3xi32>, tensor<2x2xf32>), sym_name = "main"}> ({
    %0 = "stablehlo.constant"() <{value = dense<[3, 1, 2]> : tensor<3xi32>}> : () -> tensor<3xi32>
    %1 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<3xi32>
    // CHECK-DAG: sort(%constant, %iota), dimensions={0}, is_stable=true, to_apply=
    %2:2 = "stablehlo.sort"(%0, %1) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
      %t = "stablehlo.compare"(%a, %b) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%t) : (tensor<i1>) -> ()
    }) : (tensor<3xi32>, tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>)
    %3 = "stablehlo.constant"() <{value = dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>}> : () -> tensor<3x2xf32>
    %4 = "stablehlo.constant"() <{value = dense<[[2], [0]]> : tensor<2x1xi32>}> : () -> tensor<2x1xi32>
    // CHECK-DAG: gather({{.*}}), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}
    %5 = "stablehlo.gather"(%3, %4) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>, indices_are_sorted = false}> : (tensor<3x2xf32>, tensor<2x1xi32>) -> tensor<2x2xf32>
    %6 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    // CHECK-DAG: scatter({{.*}}), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=
    %7 = "stablehlo.scatter"(%3, %4, %5) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %t = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%t) : (tensor<f32>) -> ()
    }) : (tensor<3x2xf32>, tensor<2x1xi32>, tensor<2x2xf32>) -> tensor<3x2xf32>
    // CHECK-DAG: reduce-window({{.*}}), window={size=2x1}, to_apply=
    %8 = "stablehlo.reduce_window"(%7, %6) <{window_dimensions = array<i64: 2, 1>, padding = dense<0> : tensor<2x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %t = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%t) : (tensor<f32>) -> ()
    }) : (tensor<3x2xf32>, tensor<f32>) -> tensor<2x2xf32>
    %9 = "stablehlo.reduce"(%7, %6) <{dimensions = array<i64: 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %t = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%t) : (tensor<f32>) -> ()
    }) : (tensor<3x2xf32>, tensor<f32>) -> tensor<2xf32>
    "func.return"(%9, %2#0, %2#1, %8) : (tensor<2xf32>, tensor<3xi32>, tensor<3xi32>, tensor<2x2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
// OUT: result 0 f32[2]{{.*}}  15, 20
// OUT: result 1 s32[3]{{.*}}  1, 2, 3
// OUT: result 2 s32[3]{{.*}}  1, 2, 0
// OUT: result 3 f32[2,2]{{.*}}  5, 8, 13, 16
