// Attributes of every kind, as text and as bytecode.
// RUN: %gxc --emit=hlo --passes=none %s | FileCheck %s
// RUN: %gxc --emit=hlo --passes=none %S/inputs/values.mlirbc | FileCheck %s
// CHECK-DAG: {{%[^ ,()]+}} = f32[4]{0} parameter(0)
// CHECK-DAG: {{%[^ ,()]+}} = f32[4]{0} exponential({{%[^ ,()]+}}), result_accuracy={tolerance={atol=0.5,rtol=0,ulps=2{{[}][}]}}
// CHECK-DAG: {{%[^ ,()]+}} = c64[2]{0} constant({(1, 2), (3, -4)})
// CHECK-DAG: {{%[^ ,()]+}} = f32[4,4]{1,0} parameter(2)
// CHECK-DAG: {{%[^ ,()]+}} = f32[4,4]{1,0} dot({{%[^ ,()]+}}, {{%[^ ,()]+}}), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_tf32_tf32_f32
// CHECK-DAG: {{%[^ ,()]+}} = s4[2]{0} constant({1, -2})
// CHECK-DAG: {{%[^ ,()]+}} = token[] after-all({{%[^ ,()]+}}, {{%[^ ,()]+}})
// CHECK-DAG: {{%[^ ,()]+}} = (f32[4]{0}, f32[4]{0}) custom-call({{%[^ ,()]+}}), custom_call_target="two", output_to_operand_aliasing={{[{][{]}}0}: (0, {})}, api_version=API_VERSION_TYPED_FFI{{.*}}, backend_config={flag = true, list = [1 : i64, 2 : i64], n = 3 : i64, name = "s", x = 2.5 : f32}
// CHECK-DAG: {{%[^ ,()]+}} = f32[4]{0} get-tuple-element({{%[^ ,()]+}}), index=0
// CHECK-DAG: {{%[^ ,()]+}} = f32[4]{0} get-tuple-element({{%[^ ,()]+}}), index=1
module @values {
  func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %t: !stablehlo.token, %q: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<2xcomplex<f32>>, tensor<4x4xf32>, tensor<2xi4>, !stablehlo.token, tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.exponential %a {result_accuracy = #stablehlo.result_accuracy<atol = 0.5, rtol = 0.0, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
    %1 = stablehlo.constant dense<[(1.0, 2.0), (3.0, -4.0)]> : tensor<2xcomplex<f32>>
    %2 = stablehlo.dot_general %q, %q, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = stablehlo.constant dense<[1, -2]> : tensor<2xi4>
    %4 = stablehlo.after_all %t, %t : !stablehlo.token
    %5:2 = "stablehlo.custom_call"(%a) <{call_target_name = "two", api_version = 4 : i32, backend_config = {flag = true, list = [1 : i64, 2 : i64], n = 3 : i64, name = "s", x = 2.5 : f32}, has_side_effect = false, output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>]}> : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    return %0, %1, %2, %3, %4, %5#0, %5#1 : tensor<4xf32>, tensor<2xcomplex<f32>>, tensor<4x4xf32>, tensor<2xi4>, !stablehlo.token, tensor<4xf32>, tensor<4xf32>
  }
}
