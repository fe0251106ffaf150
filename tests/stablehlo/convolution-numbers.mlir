// A convolution whose dimensions are attributes of their own, as VHLO has them.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
// CHECK: convolution(%x, %k), window={size=2x2}, dim_labels=b01f_01io->b01f
// RUN: sed 's/kernel_spatial_dimensions = \[0, 1\]/kernel_spatial_dimensions = [0]/' %s > %t.mlir
// RUN: not %gxc --emit=hlo %t.mlir 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: error:
"builtin.module"() <{sym_name = "numbers"}> ({
  "func.func"() <{function_type = (tensor<1x4x6x1xf32>, tensor<2x2x1x3xf32>) -> tensor<1x3x5x3xf32>, sym_name = "main"}> ({
  ^bb0(%x: tensor<1x4x6x1xf32>, %k: tensor<2x2x1x3xf32>):
    %0 = "stablehlo.convolution"(%x, %k) <{batch_group_count = 1 : i64, input_batch_dimension = 0, input_feature_dimension = 3, input_spatial_dimensions = [1, 2], kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3, kernel_spatial_dimensions = [0, 1], output_batch_dimension = 0, output_feature_dimension = 3, output_spatial_dimensions = [1, 2], feature_group_count = 1 : i64}> : (tensor<1x4x6x1xf32>, tensor<2x2x1x3xf32>) -> tensor<1x3x5x3xf32>
    "func.return"(%0) : (tensor<1x3x5x3xf32>) -> ()
  }) : () -> ()
}) : () -> ()
