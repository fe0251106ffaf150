// What JAX writes as calls or attributes and HLO has operations for: pairs of send and recv, ragged_all_to_all, operations whose sizes
// are operands that are known. Others of these are not supported; an assertion gives nothing.
// RUN: split-file %s %t
// RUN: %gxc %t/transfer.mlir --passes=none --emit=hlo | FileCheck %s --check-prefix=TRANSFER
// RUN: %gxc %t/ragged.mlir --passes=none --emit=hlo | FileCheck %s --check-prefix=RAGGED
// RUN: %gxc %t/window.mlir --passes=none --emit=hlo | FileCheck %s --check-prefix=WINDOW
// RUN: %gxc %t/best.mlir --passes=none --emit=hlo | FileCheck %s --check-prefix=BEST
// RUN: sed 's/dynamic_top_k/dynamic_rng_bit_generator/' %t/best.mlir > %t/other.mlir
// RUN: %gxc %t/other.mlir --emit=hlo 2>%t/err; test $? = 4 && FileCheck %s --check-prefix=OTHER < %t/err
// RUN: not %gxc %t/assertion.mlir --emit=hlo 2>&1 | FileCheck %s --check-prefix=ASSERTION
// RUN: %gxc %t/composite.mlir --passes=none --emit=hlo | FileCheck %s --check-prefix=COMPOSITE
// TRANSFER-DAG: recv({{.*}}_xla_send_recv_source_target_pairs={{[{]+}}0,1}}
// TRANSFER-DAG: send({{.*}}_xla_send_recv_source_target_pairs={{[{]+}}0,1}}
// RAGGED: ragged-all-to-all({{.*}}channel_id=1, replica_groups={{[{]+}}0,1,2,3}}
// WINDOW: reduce-window(%x, %z), window={size=5 pad=4_0}, to_apply=%add
// BEST: topk(%x), k=3
// OTHER: other.mlir:{{[0-9]+}}:{{[0-9]+}}: error: not supported: custom_call @stablehlo.dynamic_rng_bit_generator
// ASSERTION: assertion.mlir:2:7: error: shape_assertion gives nothing
// COMPOSITE: q="1"

//--- transfer.mlir
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%x: tensor<4xi32>) -> (tensor<4xi32>) {
    %p = stablehlo.partition_id : tensor<ui32>
    %pi = stablehlo.convert %p : (tensor<ui32>) -> tensor<i32>
    %idb = stablehlo.broadcast_in_dim %pi, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %t = stablehlo.create_token : !stablehlo.token
    %r:2 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0,1]]> : tensor<1x2xi64>} : (!stablehlo.token) -> (tensor<4xi32>, !stablehlo.token)
    %s = "stablehlo.send"(%idb, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0,1]]> : tensor<1x2xi64>} : (tensor<4xi32>, !stablehlo.token) -> !stablehlo.token
    return %r#0 : tensor<4xi32>
  }
}

//--- ragged.mlir
module @jit_rg attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]> {stablehlo.mesh = {axes = [{name = "x", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<16x2xf32>, %arg1: tensor<16x2xf32>, %arg2: tensor<16xi32>, %arg3: tensor<16xi32>, %arg4: tensor<16xi32>, %arg5: tensor<16xi32>) -> (tensor<16x2xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{"x"}, {}]>, <@mesh, [{"x"}]>, <@mesh, [{"x"}]>, <@mesh, [{"x"}]>, <@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%arg6: tensor<4x2xf32>, %arg7: tensor<4x2xf32>, %arg8: tensor<4xi32>, %arg9: tensor<4xi32>, %arg10: tensor<4xi32>, %arg11: tensor<4xi32>) {
      %1 = stablehlo.custom_call @ragged_all_to_all(%arg6, %arg7, %arg8, %arg9, %arg10, %arg11) {api_version = 4 : i32, backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}} : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<4x2xf32>
      sdy.return %1 : tensor<4x2xf32>
    } : (tensor<16x2xf32>, tensor<16x2xf32>, tensor<16xi32>, tensor<16xi32>, tensor<16xi32>, tensor<16xi32>) -> tensor<16x2xf32>
    return %0 : tensor<16x2xf32>
  }
}

//--- window.mlir
module {
  func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %a, %b : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.constant dense<5> : tensor<1xi32>
    %o = stablehlo.constant dense<1> : tensor<1xi32>
    %p = stablehlo.constant dense<[[4, 0]]> : tensor<1x2xi32>
    %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %z, %s, %o, %o, %o, %p) {api_version = 2 : i32, called_computations = [@add]} : (tensor<5xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1x2xi32>) -> tensor<5xf32>
    return %0 : tensor<5xf32>
  }
}

//--- best.mlir
module {
  func.func @main(%x: tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
    %k = stablehlo.constant dense<3> : tensor<i32>
    %v:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %k) {api_version = 2 : i32} : (tensor<2x5xf32>, tensor<i32>) -> (tensor<2x?xf32>, tensor<2x?xi32>)
    %a = stablehlo.convert %v#0 : (tensor<2x?xf32>) -> tensor<2x3xf32>
    %b = stablehlo.convert %v#1 : (tensor<2x?xi32>) -> tensor<2x3xi32>
    return %a, %b : tensor<2x3xf32>, tensor<2x3xi32>
  }
}

//--- assertion.mlir
module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { %c = stablehlo.constant dense<true> : tensor<i1>
 %0 = stablehlo.custom_call @shape_assertion(%c) : (tensor<i1>) -> tensor<2xf32>
 return %0 : tensor<2xf32> } }

//--- composite.mlir
module {
  func.func private @d(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }
  func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<4xf32>, tensor<3xi1>, tensor<2xi4>, tensor<8xi1>) {
    %0 = stablehlo.composite "a.b" %x {composite_attributes = {}, decomposition = @d, mhlo.frontend_attributes = {q = "1"}} : (tensor<2xf32>) -> tensor<2xf32>
    %1 = stablehlo.constant dense_resource<blob1> : tensor<4xf32>
    %2 = stablehlo.constant dense_resource<blob2> : tensor<3xi1>
    %3 = stablehlo.constant dense<"0x0F08"> : tensor<2xi4>
    %4 = stablehlo.constant dense<"0x0100010100000001"> : tensor<8xi1>
    return %0, %1, %2, %3, %4 : tensor<2xf32>, tensor<4xf32>, tensor<3xi1>, tensor<2xi4>, tensor<8xi1>
  }
}
{-#
  dialect_resources: {
    builtin: {
      blob1: "0x040000000000803F000000400000404000008040",
      blob2: "0x01000000010001"
    }
  }
#-}
